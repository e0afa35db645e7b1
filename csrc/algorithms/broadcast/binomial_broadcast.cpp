// Binomial broadcast: in every round whoever has the data sends them to somebody who has not.
//
//   root 0 of P = 6     0 -> 4                       recv
//                       0 -> 2   4 -> 5              recv
//                       0 -> 1   2 -> 3              recv
//
//   messages   P - 1 per segment; the root sends the data ceil(log2 P) times
//   depth      ceil(log2 P) messages; S ceil(log2 P) message times of S segments: nothing is gained
//              by cutting under Hockney's and the LogGP model
//   sum order  none: the root's data are copied
//   source     Pjesivac-Grbovic, PhD thesis, Tennessee (2007), section 4.1.2, broadcast; Table 4.3
#include "algorithms/algorithms.h"
#include "algorithms/trees.h"

namespace patallreduce::algorithms {

Steps binomial_broadcast(const Problem& problem, int rank) {
  const int ranks = problem.ranks, place = place_of(rank, problem.root, ranks);
  return broadcast_along(rooted(falling_binomial_family(ranks, place), problem.root, ranks),
                         problem.segments);
}

}  // namespace patallreduce::algorithms
