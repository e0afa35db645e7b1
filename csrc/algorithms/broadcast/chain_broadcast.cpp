// Chain broadcast, also called pipeline: segments go from the root along one chain.
//
//   root 0 of P = 4     0 -> 1 -> 2 -> 3      recv, every segment
//
//   messages   P - 1 per segment; every rank takes and sends the data at most once
//   depth      P + S - 2 message times of S segments; best S = sqrt((P-2) M beta / alpha)
//   sum order  none: the root's data are copied
//   source     Pjesivac-Grbovic, PhD thesis, Tennessee (2007), section 4.1.2, broadcast; Table 4.3,
//              pipeline
#include "algorithms/algorithms.h"
#include "algorithms/trees.h"

namespace patallreduce::algorithms {

Steps chain_broadcast(const Problem& problem, int rank) {
  const int ranks = problem.ranks, place = place_of(rank, problem.root, ranks);
  return broadcast_along(rooted(chain_family(ranks, place, 1), problem.root, ranks),
                         problem.segments);
}

}  // namespace patallreduce::algorithms
