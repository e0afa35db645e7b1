// K-chain reduce: as many as four chains of near equal length end at the root.
//
//   root 0 of P = 10    2 -> 1 -> 0    4 -> 3 -> 0    6 -> 5 -> 0    9 -> 8 -> 7 -> 0
//
//   messages   P - 1 per segment; the root takes the data of k chains, k = min(4, P - 1)
//   depth      ceil((P-1) / k) hops; the root's port needs k S message times: between flat and
//   chain sum order  the chains one after the other, each from its end on; arrivals change nothing
//   source     Pjesivac-Grbovic, PhD thesis, Tennessee (2007), sections 3.1 and 4.1.1; k = 4 is
//              Open MPI's
#include <algorithm>
#include <cmath>

#include "algorithms/algorithms.h"
#include "algorithms/trees.h"

namespace patallreduce::algorithms {

Steps k_chain_reduce(const Problem& problem, int rank) {
  const int ranks = problem.ranks, place = place_of(rank, problem.root, ranks);
  return reduce_along(rooted(chain_family(ranks, place, 4), problem.root, ranks), problem.segments);
}

std::int64_t k_chain_segments(int ranks, const Bucket& bucket, const Link& link) {
  const double hops = std::ceil((ranks - 1) / 4.0);
  return pipelined(hops / std::min(4, ranks - 1), transfer_s(bucket, link), bucket, link);
}

}  // namespace patallreduce::algorithms
