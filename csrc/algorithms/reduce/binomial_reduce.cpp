// Binomial reduce: ranks in pairs, then pairs in pairs. The fewest rounds for one segment.
//
//   root 0 of P = 6     1 -> 0   3 -> 2   5 -> 4      recv_reduce
//                       2 -> 0                        recv_reduce
//                       4 -> 0                        recv_reduce
//
//   messages   P - 1 per segment; the root takes the data ceil(log2 P) times
//   depth      ceil(log2 P) messages; S ceil(log2 P) message times of S segments: nothing is gained
//              by cutting under Hockney's and the LogGP model
//   sum order  the fixed tree of schedule/tree.h over places, so for root 0 that of `reproducible`;
//              arrivals change nothing
//   source     Pjesivac-Grbovic, PhD thesis, Tennessee (2007), section 4.1.2, reduce; Table 4.8;
//              a rival in Marendic et al., J. Supercomput. 72 (2016), section 5.5.1
#include "algorithms/algorithms.h"
#include "algorithms/trees.h"

namespace patallreduce::algorithms {

Steps binomial_reduce(const Problem& problem, int rank) {
  const int ranks = problem.ranks, place = place_of(rank, problem.root, ranks);
  return reduce_by_child(rooted(binomial_family(ranks, place), problem.root, ranks),
                         problem.segments);
}

}  // namespace patallreduce::algorithms
