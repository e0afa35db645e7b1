// Recursive doubling all-gather: pairs of ranks exchange all blocks they hold, at twice the
// distance in every round.
//
//   P = 6: two pairs fold        1 -> 0    3 -> 2            recv, round 0
//     0 2 4 5 exchange           0 <-> 2   4 <-> 5           recv, round 1
//                                0 <-> 4   2 <-> 5           recv, round 2
//     and hand out               0 -> 1    2 -> 3            recv, round 3
//
//   messages   log2 Q of a rank that exchanges, (Q-1)/Q of the data each way; folding
//              (algorithms/radix.h) adds (P-1)/P of the data for P - Q pairs (Q: the largest power
//              of two <= P)
//   depth      log2 P rounds, two more if P is no power of two
//   sum order  none: blocks are copied
//   source     Pjesivac-Grbovic, PhD thesis, Tennessee (2007), section 4.1.2, allgather; Table 4.6.
//              Folding, there of the barrier, is ours here
#include <utility>

#include "algorithms/algorithms.h"
#include "algorithms/radix.h"

namespace patallreduce::algorithms {

Steps recursive_doubling_all_gather(const Problem& problem, int rank) {
  RadixSteps own(problem, rank, 0, halving_rounds(problem.ranks), RadixSteps::Slices::blocks);
  const Part folded = own.folded_block();
  own.fold_in(Verb::recv, folded);
  own.all_gather();
  own.fold_out({0, folded.first});
  own.fold_out({folded.last, problem.segments});
  return std::move(own.steps);
}

}  // namespace patallreduce::algorithms
