// Local redirect reduce: whoever is ready combines with whoever else is, so that nobody waits for a
// late rank while another one is there. For data in one piece.
//
//   arrivals 0 9 0 0 0, root 0, a message takes 1     2 -> 0   4 -> 3      recv_reduce, from 0 to 1
//                                                     3 -> 0               recv_reduce, from 1 to 2
//                                                     1 -> 0               recv_reduce, from 9 on
//
//   messages   P - 1 of the whole data, cut only in order to be pipelined
//   depth      ceil(log2 P) messages with equal arrivals, as binomial; one after the last arrival
//              if the others are ready by then
//   sum order  by the arrivals: predictions change bits. The earlier of two takes, the root always
//   source     Marendic et al., J. Supercomput. 72 (2016), sections 2.3 and 5.7, Fig. 1: the greedy
//              rule. Published in Euro-Par 2012, LNCS 7484, 439-450, as found out by messages while
//              it runs; this is the schedule that arrivals like these give
//
// A message takes ranks * segment_time_s, P times that of a part. With 0 ranks are summed as
// they arrive.
#include <functional>
#include <queue>
#include <utility>
#include <vector>

#include "algorithms/algorithms.h"
#include "algorithms/pass.h"

namespace patallreduce::algorithms {

Steps local_redirect_reduce(const Problem& problem, int rank) {
  using Ready = std::pair<double, int>;  // when, who: ties by rank
  std::priority_queue<Ready, std::vector<Ready>, std::greater<>> ready;
  for (int r = 0; r < problem.ranks; ++r)
    ready.push({problem.arrivals_s.empty() ? 0 : problem.arrivals_s[r], r});
  const double message_s = problem.ranks * problem.segment_time_s;
  const Part all{0, problem.segments};
  Steps steps;
  while (ready.size() > 1) {
    int taker = ready.top().second;
    ready.pop();
    auto [begin_s, giver] = ready.top();
    ready.pop();
    if (giver == problem.root) std::swap(taker, giver);
    if (rank == taker) pass(steps, Verb::recv_reduce, giver, all);
    if (rank == giver) pass(steps, Verb::send, taker, all);
    ready.push({begin_s + message_s, taker});
  }
  return steps;
}

}  // namespace patallreduce::algorithms
