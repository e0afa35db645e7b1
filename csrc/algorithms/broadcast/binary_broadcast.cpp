// Binary broadcast: segments go down a balanced binary tree.
//
//   root 0 of P = 6     0 -> 1, 2                recv, every segment
//                       1 -> 3, 5    2 -> 4      recv
//
//   messages   P - 1 per segment; a rank takes the data once and sends them twice
//   depth      floor(log2 P) levels of two messages each, at most 2 (ceil(log2 (P+1)) + S - 2)
//              message times of S segments
//   sum order  none: the root's data are copied
//   source     Pjesivac-Grbovic, PhD thesis, Tennessee (2007), section 4.1.2, broadcast; Table 4.3
//              (Table 5.1's best segment is sqrt(2) too large)
#include "algorithms/algorithms.h"
#include "algorithms/trees.h"

namespace patallreduce::algorithms {

Steps binary_broadcast(const Problem& problem, int rank) {
  const int ranks = problem.ranks, place = place_of(rank, problem.root, ranks);
  return broadcast_along(rooted(binary_family(ranks, place), problem.root, ranks),
                         problem.segments);
}

}  // namespace patallreduce::algorithms
