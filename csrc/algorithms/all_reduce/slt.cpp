// Sorted linear tree: segments are summed down the chain of arrivals, so that whatever does not
// need the last rank is done before it comes; the sums go from the last rank to the first and
// down the chain again.
//
//   arrival order 2 0 3 1     2 -> 0 -> 3 -> 1     recv_reduce, every segment
//                             1 -> 2 -> 0 -> 3     recv
//
//   messages   2(P-1) per segment; every rank but the last two sends the data twice
//   depth      2(P-1) hops, pipelined over segments; once the last rank of S segments has come,
//              S + P - 2 message times are left, a message being 1/S of the data
//   sum order  the arrival order: another prediction may change the bits
//   source     Proficz, J. Supercomput. 74 (2018), arXiv:1804.05349, section 4.1, Fig. 5
#include "algorithms/algorithms.h"
#include "algorithms/arrival_order.h"

namespace patallreduce::algorithms {

using schedule::Problem;
using schedule::Steps;
using schedule::Verb;

// All sums are written before all results, as in the paper. Messages of a pair keep program
// order: a result placed before a sum would make that sum wait for the last rank.
Steps slt(const Problem& problem, int rank) {
  if (problem.ranks == 1) return {};
  const ArrivalOrder order = arrival_order(problem, rank);
  const int last = problem.ranks - 1;
  Steps steps;
  for (int s = 0; s < problem.segments; ++s) {
    if (order.id > 0) steps.push_back({Verb::recv_reduce, order.previous(), s, s + 1});
    steps.push_back({Verb::send, order.next(), s, s + 1});  // the last rank's is a result
  }
  if (order.id == last) return steps;
  for (int s = 0; s < problem.segments; ++s) {
    steps.push_back({Verb::recv, order.previous(), s, s + 1});
    if (order.id < last - 1) steps.push_back({Verb::send, order.next(), s, s + 1});
  }
  return steps;
}

}  // namespace patallreduce::algorithms
