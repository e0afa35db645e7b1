// Bruck's all-gather: in round k every rank takes from the rank 2^k after it all blocks that one
// holds, so that any P takes the fewest rounds.
//
//   P = 6     r <- r+1: block r+1                 recv, round 0
//             r <- r+2: blocks r+2, r+3           recv, round 1
//             r <- r+4: blocks r+4, r+5           recv, round 2: two of that rank's four
//
//   messages   P - 1 blocks each way, (P-1)/P of the data
//   depth      ceil(log2 P) rounds
//   sum order  none: blocks are copied
//   source     Bruck, Ho, Kipnis, Upfal, Weathersby, IEEE TPDS 8 (1997), 1143-1156;
//              Pjesivac-Grbovic, PhD thesis, Tennessee (2007), section 4.1.2, allgather; Table 4.6
//
// The published algorithm keeps its blocks contiguous by shifting them before and after. Here a
// message is a segment at its own place, so nothing is copied and the table's P m delta is saved.
#include <algorithm>

#include "algorithms/algorithms.h"
#include "algorithms/pass.h"

namespace patallreduce::algorithms {

using schedule::part;

Steps bruck_all_gather(const Problem& problem, int rank) {
  const int ranks = problem.ranks;
  const auto block = [&](int distance) {  // of the rank that far after this one
    return part((rank + distance) % ranks, ranks, problem.segments);
  };
  Steps steps;
  int round = 0;
  for (int held = 1; held < ranks; held *= 2, ++round) {
    const int to = (rank + ranks - held) % ranks, from = (rank + held) % ranks;
    for (int i = 0; i < std::min(held, ranks - held); ++i)
      exchange(steps, to, block(i), Verb::recv, from, block(held + i), round);
  }
  return steps;
}

}  // namespace patallreduce::algorithms
