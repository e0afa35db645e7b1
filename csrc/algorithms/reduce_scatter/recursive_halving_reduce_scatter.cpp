// Recursive halving reduce-scatter: pairs of ranks exchange halves of the slice they both sum, at
// half the distance in every round, until each has the sum of its own block.
//
//   P = 6: two pairs fold        1 -> 0    3 -> 2: everything               recv_reduce, round 0
//     0 2 4 5 exchange           0 <-> 4   2 <-> 5: blocks 4 5 | 0 1 2 3    recv_reduce, round 1
//                                0 <-> 2: blocks 2 3 | 0 1   4 <-> 5        recv_reduce, round 2
//     and hand out               0 -> 1: block 1   2 -> 3: block 3          recv, round 3
//
//   messages   log2 Q of a rank that exchanges, 1 - 1/P to 1 - 1/Q of the data; folding
//              (algorithms/radix.h) adds the whole data to the first round of P - Q pairs (Q: the
//              largest power of two <= P)
//   depth      log2 P rounds, two more if P is no power of two
//   sum order  a balanced tree from the largest distance on, of pairs where ranks fold; arrivals
//              change nothing
//   source     Pjesivac-Grbovic, PhD thesis, Tennessee (2007), section 4.1.2, reduce_scatter, Fig.
//              4.9; Table 4.9. Its folded ranks are those from Q on; here they are neighbours, so
//              that an exchanging rank's blocks are contiguous
#include <utility>

#include "algorithms/algorithms.h"
#include "algorithms/radix.h"

namespace patallreduce::algorithms {

Steps recursive_halving_reduce_scatter(const Problem& problem, int rank) {
  RadixSteps own(problem, rank, 0, halving_rounds(problem.ranks), RadixSteps::Slices::blocks);
  own.fold_in(Verb::recv_reduce, own.everything());
  own.reduce_scatter();
  own.fold_out(own.folded_block());
  return std::move(own.steps);
}

}  // namespace patallreduce::algorithms
