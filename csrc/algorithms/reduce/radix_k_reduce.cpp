// Radix-k reduce: in each round groups of two, three or four ranks exchange pieces of a slice, so
// that each of Q ranks ends with the sum of one part; the rounds backwards gather them at the root.
//
//   root 0 of P = 4     0, 1, 2, 3 exchange quarters    recv_reduce, round 0
//                       1, 2, 3 -> 0: quarters          recv, round 1
//
//   messages   2 sum(k_i - 1) of the root; 2(Q-1)/Q of the data through its port. Q and the k_i are
//              those of radix_k; folding the ranks over Q (algorithms/radix.h) adds the whole data
//              once
//   depth      two rounds per radix, one more where ranks fold
//   sum order  by part: a tree of the radices, each from the piece's owner on; arrivals change
//              nothing
//   source     Marendic et al., J. Supercomput. 72 (2016), section 5.5.4 and Table 3, where the
//              gather is a library's; Peterka, Goodell, Ross, Shen, Thakur, SC 2009
#include <utility>

#include "algorithms/algorithms.h"
#include "algorithms/radix.h"

namespace patallreduce::algorithms {

Steps radix_k_reduce(const Problem& problem, int rank) {
  RadixSteps own(problem, rank, problem.root, nearest_first(radices_within(problem.ranks)),
                 RadixSteps::Slices::even);
  own.fold_in(Verb::recv_reduce, own.everything());
  own.reduce_scatter();
  own.gather();
  return std::move(own.steps);
}

}  // namespace patallreduce::algorithms
