// Pre-reduced ring: a ring in order of arrival in which early ranks sum more parts among
// themselves, as many as fit into the time until the last rank comes.
//
//   P = 4, the last rank late by 2 tau: ids are arrival order, k = pre-steps of each id
//     k           2    1    0    0       id i starts with part i + k[i] and goes downward
//     part 0..2   0 -> 1 -> 2 -> 3       starts at id 0: two hops do not need id 3
//     part 3      3 -> 0 -> 1 -> 2       starts at id 3
//
//   messages   P(2P-2) parts in all, as in the ring. One very late rank takes P and sends P+1,
//              most others 2P each way (the paper says P-1 and 2P-1)
//   depth      of a part P-1 hops to sum and P-1 to hand out; pipelined over its segments
//   sum order  the ring from the part's first id on, in arrival order: predictions change bits
//   source     Proficz, J. Supercomput. 74 (2018), arXiv:1804.05349, section 4.2, Fig. 7, with
//              three corrections, marked (a) (b) (c)
//
// The paper's segment is a part here: tau = problem.segment_time_s is the time to transfer and
// reduce one part, 1/P of the data, however many segments it has. With tau = 0 a pre-step
// costs nothing: every rank that is early at all does one more than its successor.
//
// Where ranks share nodes each node is an id here, as late as its last rank, and tau of 1/N of the
// data. Lines 7-32 are around.cpp, where the corrections are.
#include <cstddef>
#include <utility>
#include <vector>

#include "algorithms/algorithms.h"
#include "algorithms/around.h"

namespace patallreduce::algorithms {

namespace {

// The last id of each node, in order; every id's where no two share one.
std::vector<int> last_ids(const ArrivalOrder& order) {
  std::vector<int> last;
  const int ranks = static_cast<int>(order.ranks.size());
  for (int id = 0; id < ranks; ++id)
    if (id + 1 == ranks || !order.same_node(id, id + 1)) last.push_back(id);
  return last;
}

// k, lines 1-6. From one id to the next k drops by one or stays, so id + k[id] never falls and ends
// at the last: every id starts with a part that exists.
std::vector<int> pre_steps(const Problem& problem, const std::vector<double>& arrivals_s) {
  const int ids = static_cast<int>(arrivals_s.size());
  std::vector<int> k(ids, 0);
  for (int id = ids - 2; id >= 0; --id) {
    const double ahead_s = arrivals_s[ids - 1] - arrivals_s[id + 1];
    const bool fits = ahead_s > 0 && ahead_s >= (k[id + 1] + 1) * problem.segment_time_s;
    k[id] = k[id + 1] + (fits ? 1 : 0);
  }
  return k;
}

}  // namespace

Steps prr(const Problem& problem, int rank) {
  const ArrivalOrder order = arrival_order(problem, rank);
  const std::vector<int> last = last_ids(order);
  std::vector<double> arrivals_s;
  for (const int id : last)
    arrivals_s.push_back(problem.arrivals_s.empty() ? 0 : problem.arrivals_s[order.ranks[id]]);
  const std::vector<int> k = pre_steps(problem, arrivals_s);
  std::vector<int> tops(problem.ranks);
  for (std::size_t node = 0; node < last.size(); ++node)
    tops[last[node]] = last[node + std::size_t(k[node])];
  return around(problem, order, std::move(tops));
}

}  // namespace patallreduce::algorithms
