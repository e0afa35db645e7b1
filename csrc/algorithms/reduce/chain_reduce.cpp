// Chain reduce, also called linear pipeline: segments are summed along one chain towards the root.
//
//   root 0 of P = 4     3 -> 2 -> 1 -> 0      recv_reduce, every segment
//
//   messages   P - 1 per segment; every rank takes and sends the data at most once
//   depth      P + S - 2 message times of S segments; best S = sqrt((P-2) M (beta + gamma) / alpha)
//   sum order  from the last place to the root: root + (root+1 + (... + root+P-1)); arrivals change
//              nothing
//   source     Pjesivac-Grbovic, PhD thesis, Tennessee (2007), section 4.1.2, reduce; Table 4.8,
//              pipeline; as linear pipeline in Marendic et al., J. Supercomput. 72 (2016), Table 3
#include "algorithms/algorithms.h"
#include "algorithms/trees.h"

namespace patallreduce::algorithms {

Steps chain_reduce(const Problem& problem, int rank) {
  const int ranks = problem.ranks, place = place_of(rank, problem.root, ranks);
  return reduce_along(rooted(chain_family(ranks, place, 1), problem.root, ranks), problem.segments);
}

}  // namespace patallreduce::algorithms
