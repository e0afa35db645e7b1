// Dissemination barrier, also called Bruck's: in round k every rank tells the rank 2^k after it
// all it has heard of. Any P takes the fewest rounds.
//
//   P = 6     r -> r+1      recv_reduce, round 0
//             r -> r+2      recv_reduce, round 1
//             r -> r+4      recv_reduce, round 2: some are heard of twice
//
//   messages   ceil(log2 P) each way of every rank, of no data
//   depth      ceil(log2 P) rounds
//   sum order  none: there is nothing to sum
//   source     Pjesivac-Grbovic, PhD thesis, Tennessee (2007), section 4.1.2, barrier; Table 4.2;
//              Hensgen, Finkel, Manber, Int. J. Parallel Programming 17 (1988), 1-17
#include "algorithms/algorithms.h"

namespace patallreduce::algorithms {

using schedule::Verb;

Steps dissemination_barrier(const Problem& problem, int rank) {
  const int ranks = problem.ranks;
  Steps steps;
  int round = 0;
  for (int distance = 1; distance < ranks; distance *= 2, ++round) {
    steps.push_back({Verb::send, (rank + distance) % ranks, 0, problem.segments, round});
    steps.push_back(
        {Verb::recv_reduce, (rank + ranks - distance) % ranks, 0, problem.segments, round});
  }
  return steps;
}

}  // namespace patallreduce::algorithms
