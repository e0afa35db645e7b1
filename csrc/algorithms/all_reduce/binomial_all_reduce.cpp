// Binomial all-reduce: a binomial reduce to rank 0 and a binomial broadcast from it.
//
//   P = 6     1 -> 0   3 -> 2   5 -> 4      recv_reduce
//             2 -> 0                        recv_reduce
//             4 -> 0                        recv_reduce
//             0 -> 4                        recv
//             0 -> 2                        recv
//             0 -> 1   2 -> 3   4 -> 5      recv
//
//   messages   2(P-1) per segment, no fewer are possible; rank 0 takes and sends the data
//              ceil(log2 P) times each
//   depth      2 ceil(log2 P) messages; with one segment reduce and broadcast do not overlap
//   sum order  the fixed tree of schedule/tree.h, as of `reproducible`; segments and arrivals
//              change nothing. Computed by rank 0 and copied to all
//   source     Pjesivac-Grbovic, PhD thesis, Tennessee (2007), section 4.1.2, allreduce (reduce +
//              broadcast); Tables 4.3 and 4.8
#include "algorithms/algorithms.h"
#include "algorithms/trees.h"

namespace patallreduce::algorithms {

Steps binomial_all_reduce(const Problem& problem, int rank) {
  Steps steps = reduce_by_child(binomial_family(problem.ranks, rank), problem.segments);
  const Steps down =
      broadcast_along(falling_binomial_family(problem.ranks, rank), problem.segments);
  steps.insert(steps.end(), down.begin(), down.end());
  return steps;
}

}  // namespace patallreduce::algorithms
