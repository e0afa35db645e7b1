// Closed forms: when every rank would be done, in O(ranks), without a schedule.
//
// For many ranks, where a simulation would take longer than the collective. Those of ring, doubling
// and halving let the last rank's arrival begin everything: upper bounds (to 1 %), near where ranks
// arrive together. The chain's follows the pipeline's first and last segment. How near they come:
// tests/selection/test_estimates.py.
#pragma once

#include <vector>

#include "pricing/link.h"

namespace patallreduce::selection {

using pricing::Link;

// 2(P - 1) rounds of a part.
std::vector<double> estimate_ring(const std::vector<double>& arrivals_s, int segments,
                                  double message_bytes, const Link& link);
// Recursive doubling: log2 P rounds of the whole message; two more if P is no power of two.
std::vector<double> estimate_doubling(const std::vector<double>& arrivals_s, int segments,
                                      double message_bytes, const Link& link);
// Rabenseifner: recursive halving, then doubling; each moves (P - 1) / P of the message. Ranks that
// are no power of two: a further exchange for each smaller block.
std::vector<double> estimate_halving(const std::vector<double>& arrivals_s, int segments,
                                     double message_bytes, const Link& link);
// slt, the ranks being given in the order of the chain.
std::vector<double> estimate_chain(const std::vector<double>& arrivals_s, int segments,
                                   double message_bytes, const Link& link);

}  // namespace patallreduce::selection
