// Binary reduce: segments are summed up a balanced binary tree.
//
//   root 0 of P = 6     3, 5 -> 1    4 -> 2      recv_reduce, every segment
//                       1, 2 -> 0                recv_reduce
//
//   messages   P - 1 per segment; a rank takes the data twice and sends it once
//   depth      floor(log2 P) levels of two messages each, at most 2 (ceil(log2 (P+1)) + S - 2)
//              message times of S segments
//   sum order  own + left, + right, from the leaves on (figure: places); arrivals change nothing
//   source     Pjesivac-Grbovic, PhD thesis, Tennessee (2007), section 4.1.2, reduce; Table 4.8
//              (Table 5.1's best segment is sqrt(2) too large)
#include "algorithms/algorithms.h"
#include "algorithms/trees.h"

namespace patallreduce::algorithms {

Steps binary_reduce(const Problem& problem, int rank) {
  const int ranks = problem.ranks, place = place_of(rank, problem.root, ranks);
  return reduce_along(rooted(binary_family(ranks, place), problem.root, ranks), problem.segments);
}

}  // namespace patallreduce::algorithms
