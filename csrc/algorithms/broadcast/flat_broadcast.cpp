// Flat broadcast: the root sends to everybody, one after the other.
//
//   root 0 of P = 4     0 -> 1    0 -> 2    0 -> 3      recv, every segment
//
//   messages   P - 1 per segment, all from the root's port
//   depth      S (P - 1) message times, the last one's latency after it: for few ranks and small
//              messages
//   sum order  none: the root's data are copied
//   source     Pjesivac-Grbovic, PhD thesis, Tennessee (2007), section 4.1.2, broadcast; Table 4.3
#include "algorithms/algorithms.h"
#include "algorithms/trees.h"

namespace patallreduce::algorithms {

Steps flat_broadcast(const Problem& problem, int rank) {
  const int ranks = problem.ranks, place = place_of(rank, problem.root, ranks);
  return broadcast_along(rooted(chain_family(ranks, place, ranks), problem.root, ranks),
                         problem.segments);
}

}  // namespace patallreduce::algorithms
