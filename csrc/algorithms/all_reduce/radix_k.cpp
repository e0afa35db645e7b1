// Radix-k: in each round groups of two, three or four ranks exchange pieces of a slice, until each
// of Q ranks has the sum of one part; the rounds backwards hand the parts out again. Larger groups
// take fewer rounds, with more messages in flight in each.
//
//   P = 12, radices 4, 3     0 1 2 3 | 4 5 6 7 | 8 9 10 11      quarters          recv_reduce
//                            0 4 8 | 1 5 9 | 2 6 10 | 3 7 11    thirds of these   recv_reduce
//                            the same backwards                                   recv
//
//   messages   2 sum(k_i - 1) each way of every rank, 2(Q-1)/Q of the data. Q is the largest number
//              <= P without prime factors but 2 and 3, its radices fours first, then a two, then
//              threes; folding (algorithms/radix.h) adds the whole data on the way in and out
//   depth      two rounds per radix, two more where ranks fold
//   sum order  by part: a tree of the radices, each from the piece's owner on. Computed by one rank
//              and copied to all; arrivals change nothing
//   source     Marendic et al., J. Supercomput. 72 (2016), section 5.5.4; Peterka, Goodell, Ross,
//              Shen, Thakur, SC 2009; the all-gather after it: Rabenseifner, ICCS 2004. The
//              radices, and folding, are ours: the published vector is tuned by hand and has the
//              product P
#include <utility>
#include <vector>

#include "algorithms/algorithms.h"
#include "algorithms/radix.h"

namespace patallreduce::algorithms {

Steps radix_k(const Problem& problem, int rank) {
  RadixSteps own(problem, rank, 0, nearest_first(radices_within(problem.ranks)),
                 RadixSteps::Slices::even);
  own.fold_in(Verb::recv_reduce, own.everything());
  own.reduce_scatter();
  own.all_gather();
  own.fold_out(own.everything());
  return std::move(own.steps);
}

}  // namespace patallreduce::algorithms
