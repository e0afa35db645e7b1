// Double ring barrier: a token goes round the ranks twice. Who sees it a second time knows that
// everybody has come.
//
//   root 0 of P = 4     0 -> 1 -> 2 -> 3      recv_reduce, rounds 0..2
//                       3 -> 0 -> 1 -> 2 -> 3 recv, rounds 3..6
//
//   messages   2P - 1, of no data. The paper's last one, back to the root, tells nobody anything
//   depth      2P - 1 messages, one after the other
//   sum order  none: there is nothing to sum
//   source     Pjesivac-Grbovic, PhD thesis, Tennessee (2007), section 4.1.2, barrier; Table 4.2
#include "algorithms/algorithms.h"
#include "algorithms/trees.h"

namespace patallreduce::algorithms {

using schedule::Verb;

Steps double_ring_barrier(const Problem& problem, int rank) {
  const int ranks = problem.ranks, segments = problem.segments;
  if (ranks == 1) return {};
  const int place = place_of(rank, problem.root, ranks);
  const int right = (rank + 1) % ranks, left = (rank + ranks - 1) % ranks;
  Steps steps;
  if (place > 0) steps.push_back({Verb::recv_reduce, left, 0, segments, place - 1});
  steps.push_back({Verb::send, right, 0, segments, place});
  steps.push_back({Verb::recv, left, 0, segments, ranks + place - 1});
  if (place < ranks - 1) steps.push_back({Verb::send, right, 0, segments, ranks + place});
  return steps;
}

}  // namespace patallreduce::algorithms
