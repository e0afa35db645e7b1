// Parallel ring reduce: every part is summed once around the ranks, then a binomial tree gathers
// the parts at the root.
//
//   root 0 of P = 4     part 0: 1 -> 2 -> 3 -> 0, part 1: 2 -> 3 -> 0 -> 1, ...   recv_reduce
//                       1 -> 0: part 1    3 -> 2: part 3                          recv
//                       2 -> 0: parts 2, 3                                        recv
//
//   messages   P - 1 parts each way in the ring, then P - 1 parts into the root: twice (P-1)/P of
//              the data through the root's port
//   depth      P - 1 rounds and ceil(log2 P) messages, their segments pipelined
//   sum order  part j: ((j+1 + j+2) + ...) + j, by rank modulo P; arrivals change nothing
//   source     Marendic et al., J. Supercomput. 72 (2016), section 5.5.2 and Table 3; as
//              bucket algorithm in Chan, Heimlich, Purkayastha, van de Geijn, CCPE 19 (2007)
#include "algorithms/algorithms.h"
#include "algorithms/pass.h"
#include "algorithms/trees.h"

namespace patallreduce::algorithms {

using schedule::part;

Steps parallel_ring_reduce(const Problem& problem, int rank) {
  const int ranks = problem.ranks, root = problem.root, place = place_of(rank, root, ranks);
  Steps steps = ring_reduce_scatter(problem, rank);
  const auto gather = [&](Verb verb, int peer, Part places) {
    for (int from = places.first; from < places.last; ++from)
      pass(steps, verb, rank_of(peer, root, ranks),
           part(rank_of(from, root, ranks), ranks, problem.segments));
  };
  const Family family = binomial_family(ranks, place);
  for (const int child : family.children) gather(Verb::recv, child, binomial_subtree(ranks, child));
  if (family.parent >= 0) gather(Verb::send, family.parent, binomial_subtree(ranks, place));
  return steps;
}

}  // namespace patallreduce::algorithms
