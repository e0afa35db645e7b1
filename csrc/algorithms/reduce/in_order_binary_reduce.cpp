// In-order binary reduce: a binary tree whose sums keep the ranks in their order, as an operation
// that does not commute needs. Rank P - 1 is the tree's root and sends the sum to another root.
//
//   root 0 of P = 7     0, 1 -> 2    3, 4 -> 5      recv_reduce, every segment
//                       5, 2 -> 6                   recv_reduce
//                       6 -> 0                      recv
//
//   messages   P - 1 per segment, P unless the root is rank P - 1
//   depth      floor(log2 P) levels of two messages each, one message more to another root
//   sum order  (lower ranks + (upper ranks + own)): 0, 1, ... P - 1 from left to right with what is
//              received on the left; arrivals change nothing
//   source     Pjesivac-Grbovic, PhD thesis, Tennessee (2007), section 4.1.2, reduce; Fig. 4.2
#include "algorithms/algorithms.h"
#include "algorithms/pass.h"
#include "algorithms/trees.h"

namespace patallreduce::algorithms {

Steps in_order_binary_reduce(const Problem& problem, int rank) {
  const int last = problem.ranks - 1;
  Steps steps = reduce_along(in_order_binary_family(problem.ranks, rank), problem.segments);
  if (problem.root == last) return steps;
  const Part all{0, problem.segments};
  if (rank == last) pass(steps, Verb::send, problem.root, all);
  if (rank == problem.root) pass(steps, Verb::recv, last, all);
  return steps;
}

}  // namespace patallreduce::algorithms
