// Closed forms: when every rank would be done, in O(ranks), without a schedule.
//
// For many ranks, where a simulation would take longer than the collective. Each stands in its
// algorithm's file. Those of ring, doubling and halving let the last rank's arrival begin
// everything: upper bounds (to 1 %), near where ranks arrive together. The chain's follows the
// pipeline's first and last segment. How near they come: tests/selection/test_estimates.py.
#pragma once

#include <algorithm>
#include <vector>

#include "pricing/link.h"

namespace patallreduce::algorithms {

using pricing::Link;

inline double hop_s(double bytes, const Link& link) {
  return link.latency_s + link.transfer_s(bytes);
}

inline std::vector<double> all_after_the_last(const std::vector<double>& arrivals_s,
                                              double after_s) {
  const double last_s = *std::max_element(arrivals_s.begin(), arrivals_s.end());
  return std::vector<double>(arrivals_s.size(), last_s + after_s);
}

}  // namespace patallreduce::algorithms
