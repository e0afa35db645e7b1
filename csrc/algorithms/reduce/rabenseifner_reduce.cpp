// Rabenseifner's reduce, the butterfly of image compositing: recursive halving leaves each of Q
// ranks with the sum of one part, then the halving backwards gathers them at the root.
//
//   root 0 of P = 4     0 <-> 2   1 <-> 3: halves      recv_reduce, round 0
//                       0 <-> 1   2 <-> 3: quarters    recv_reduce, round 1
//                       1 -> 0    3 -> 2: quarters     recv, round 2
//                       2 -> 0: a half                 recv, round 3
//
//   messages   2 log2 Q of the root, at most log2 Q + 1 to send of another; 2(Q-1)/Q of the data
//              through the root's port. Q is the largest power of two <= P; folding the ranks over
//              it (algorithms/radix.h) adds the whole data once
//   depth      2 log2 P rounds, one more if P is no power of two
//   sum order  by part: a balanced tree from distance Q/2 on; arrivals change nothing
//   source     Rabenseifner, ICCS 2004, LNCS 3036, 1-9; Pjesivac-Grbovic, PhD thesis, Tennessee
//              (2007), section 4.1.2, reduce; as Butterfly in Marendic et al., J. Supercomput. 72
//              (2016), section 5.5.3. Table 4.8 of the thesis counts M per rank, P M in all
//
// The all-reduce of that name, with binary blocks instead of folding, is in rabenseifner.cpp.
#include <utility>

#include "algorithms/algorithms.h"
#include "algorithms/radix.h"

namespace patallreduce::algorithms {

Steps rabenseifner_reduce(const Problem& problem, int rank) {
  RadixSteps own(problem, rank, problem.root, halving_rounds(problem.ranks),
                 RadixSteps::Slices::even);
  own.fold_in(Verb::recv_reduce, own.everything());
  own.reduce_scatter();
  own.gather();
  return std::move(own.steps);
}

}  // namespace patallreduce::algorithms
