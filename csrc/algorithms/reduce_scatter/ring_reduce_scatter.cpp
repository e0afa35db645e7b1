// Ring reduce-scatter: every part is summed once around the ranks and ends where it belongs.
//
//   part 0 of P = 4     1 -> 2 -> 3 -> 0      recv_reduce, rounds 0..2
//   in every round each rank sends one part to its right and takes another from its left
//
//   messages   P - 1 parts each way, (P-1)/P of the data, to and from neighbours alone
//   depth      P - 1 rounds; the segments of a part are pipelined
//   sum order  part j: ((j+1 + j+2) + ...) + j, by rank modulo P; arrivals change nothing
//   source     Pjesivac-Grbovic, PhD thesis, Tennessee (2007), section 4.1.2, reduce_scatter; Table
//              4.9. Its P m delta, a copy of the data, is not needed here
#include "algorithms/algorithms.h"
#include "algorithms/pass.h"

namespace patallreduce::algorithms {

using schedule::part;

Steps ring_reduce_scatter(const Problem& problem, int rank) {
  const int ranks = problem.ranks;
  const int right = (rank + 1) % ranks, left = (rank + ranks - 1) % ranks;
  const auto part_at = [&](int distance) {  // of the rank that far to the left
    return part((rank + ranks - distance) % ranks, ranks, problem.segments);
  };
  Steps steps;
  for (int round = 0; round < ranks - 1; ++round)
    exchange(steps, right, part_at(round + 1), Verb::recv_reduce, left, part_at(round + 2), round);
  return steps;
}

}  // namespace patallreduce::algorithms
