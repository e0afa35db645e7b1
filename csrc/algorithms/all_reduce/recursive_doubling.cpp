// Recursive doubling: pairs of ranks exchange everything they hold, at twice the distance in every
// round, so that after log2 P rounds everybody holds the sum of all. For small messages.
//
//   P = 6: two ranks over       4 -> 0    5 -> 1      recv_reduce, round 0
//     Q = 4 exchange            0 <-> 1   2 <-> 3     recv_reduce, round 1
//                               0 <-> 2   1 <-> 3     recv_reduce, round 2
//     and hand out              0 -> 4    1 -> 5      recv, round 3
//
//   messages   log2 Q per segment and exchanging rank, the whole data in every round; a rank over
//              sends and takes one more (Q: the largest power of two <= P)
//   depth      log2 P rounds, two more if P is no power of two
//   sum order  a balanced tree over ranks modulo Q; arrivals change nothing. Both ranks of a pair
//              add the same two sums, one a + b, the other b + a
//   source     Thakur, Rabenseifner, Gropp, IJHPCA 19 (2005), 49-66; Pjesivac-Grbovic, PhD thesis,
//              Tennessee (2007), section 4.1, allreduce, Fig. 4.10
//
// Two ranks that add the same operands in either order hold the same bits: IEEE 754 addition and
// multiplication commute, zeros and infinities included, and reduction/ sees to min and max. Only
// where both operands are NaN may the ranks end with different NaNs (with a NaN they both end).
#include <cstddef>

#include "algorithms/algorithms.h"
#include "algorithms/estimates.h"
#include "algorithms/powers.h"

namespace patallreduce::algorithms {

using schedule::Verb;

// A segment's send stands before its recv_reduce: what leaves is what was held before the round.
Steps recursive_doubling(const Problem& problem, int rank) {
  const int exchanging = power_of_two_within(problem.ranks);
  const int over = problem.ranks - exchanging;
  const int last_round = floor_log2(exchanging) + (over > 0 ? 1 : 0);
  Steps steps;
  const auto each_segment = [&](Verb verb, int peer, int round) {
    for (int s = 0; s < problem.segments; ++s) steps.push_back({verb, peer, s, s + 1, round});
  };
  if (rank >= exchanging) {
    each_segment(Verb::send, rank - exchanging, 0);
    each_segment(Verb::recv, rank - exchanging, last_round);
    return steps;
  }
  if (rank < over) each_segment(Verb::recv_reduce, rank + exchanging, 0);
  int round = over > 0 ? 1 : 0;
  for (int distance = 1; distance < exchanging; distance *= 2, ++round) {
    for (int s = 0; s < problem.segments; ++s) {
      steps.push_back({Verb::send, rank ^ distance, s, s + 1, round});
      steps.push_back({Verb::recv_reduce, rank ^ distance, s, s + 1, round});
    }
  }
  if (rank < over) each_segment(Verb::send, rank + exchanging, last_round);
  return steps;
}

std::vector<double> estimate_doubling(const std::vector<double>& arrivals_s, int,
                                      double message_bytes, const Link& link) {
  const std::size_t ranks = arrivals_s.size();
  const int rounds = floor_log2(static_cast<int>(ranks));
  const double exchange_s = hop_s(message_bytes, link) + message_bytes / link.reduce_bytes_per_s;
  // The ranks beyond the power of two hand theirs over first and are told last; and those that need
  // not wait for them send ahead, into ports that still need another message first.
  const bool over = ranks > std::size_t(1) << rounds;
  return all_after_the_last(arrivals_s,
                            (rounds + over) * exchange_s + 2 * over * hop_s(message_bytes, link));
}

}  // namespace patallreduce::algorithms
