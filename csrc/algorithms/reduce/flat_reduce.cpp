// Flat reduce: everybody sends straight to the root, which takes them one after the other.
//
//   root 0 of P = 4     1 -> 0    2 -> 0    3 -> 0      recv_reduce, every segment
//
//   messages   P - 1 per segment, all into the root's port; nobody else takes any
//   depth      S (P - 1) message times, the first after one latency: for few ranks, and where the
//              root is the last to arrive
//   sum order  ((root + root+1) + root+2) + ..., by rank modulo P; arrivals change nothing
//   source     Pjesivac-Grbovic, PhD thesis, Tennessee (2007), section 4.1.2, reduce; Table 4.8
#include "algorithms/algorithms.h"
#include "algorithms/trees.h"

namespace patallreduce::algorithms {

Steps flat_reduce(const Problem& problem, int rank) {
  const int ranks = problem.ranks, place = place_of(rank, problem.root, ranks);
  return reduce_along(rooted(chain_family(ranks, place, ranks), problem.root, ranks),
                      problem.segments);
}

}  // namespace patallreduce::algorithms
