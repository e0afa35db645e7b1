// Ring all-gather: every block goes once around the ranks.
//
//   block 0 of P = 4     0 -> 1 -> 2 -> 3      recv, rounds 0..2
//   in every round each rank sends one block to its right and takes another from its left
//
//   messages   P - 1 blocks each way, (P-1)/P of the data, to and from neighbours alone
//   depth      P - 1 rounds; the segments of a block are pipelined
//   sum order  none: blocks are copied
//   source     Pjesivac-Grbovic, PhD thesis, Tennessee (2007), section 4.1.2, allgather; Table 4.6
#include "algorithms/algorithms.h"
#include "algorithms/pass.h"

namespace patallreduce::algorithms {

using schedule::part;

Steps ring_all_gather(const Problem& problem, int rank) {
  const int ranks = problem.ranks;
  const int right = (rank + 1) % ranks, left = (rank + ranks - 1) % ranks;
  const auto block = [&](int distance) {  // of the rank that far to the left
    return part((rank + ranks - distance) % ranks, ranks, problem.segments);
  };
  Steps steps;
  for (int round = 0; round < ranks - 1; ++round)
    exchange(steps, right, block(round), Verb::recv, left, block(round + 1), round);
  return steps;
}

}  // namespace patallreduce::algorithms
