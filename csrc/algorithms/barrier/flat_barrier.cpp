// Flat barrier (linear fan-in, fan-out): everybody tells the root, the root tells everybody.
//
//   root 0 of P = 4     1, 2, 3 -> 0      recv_reduce
//                       0 -> 1, 2, 3      recv
//
//   messages   2(P-1), of no data, all through the root's port
//   depth      two latencies and P - 1 messages each way at the root
//   sum order  none: there is nothing to sum
//   source     Pjesivac-Grbovic, PhD thesis, Tennessee (2007), section 4.1.2, barrier; Table 4.2
//              (which counts the P - 1 messages into the root as one)
#include "algorithms/algorithms.h"

namespace patallreduce::algorithms {

using schedule::Verb;

Steps flat_barrier(const Problem& problem, int rank) {
  const int root = problem.root, segments = problem.segments;
  if (rank != root) return {{Verb::send, root, 0, segments, 0}, {Verb::recv, root, 0, segments, 1}};
  Steps steps;
  for (const Verb verb : {Verb::recv_reduce, Verb::send})
    for (int i = 1; i < problem.ranks; ++i)
      steps.push_back({verb, (root + i) % problem.ranks, 0, segments, verb == Verb::send ? 1 : 0});
  return steps;
}

}  // namespace patallreduce::algorithms
