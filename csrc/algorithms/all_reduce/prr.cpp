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
#include <cstddef>
#include <vector>

#include "algorithms/algorithms.h"
#include "algorithms/arrival_order.h"
#include "schedule/parts.h"

namespace patallreduce::algorithms {

using schedule::Part;
using schedule::part;
using schedule::Verb;

namespace {

// k[id], lines 1-6. From one id to the next k drops by one or stays, so id + k[id] never falls
// and ends at P-1: every id starts with a part that exists.
std::vector<int> pre_steps(const Problem& problem, const ArrivalOrder& order) {
  const int ranks = problem.ranks;
  std::vector<int> k(ranks, 0);
  if (problem.arrivals_s.empty()) return k;
  const auto arrival_s = [&](int id) { return problem.arrivals_s[order.ranks[id]]; };
  for (int id = ranks - 2; id >= 0; --id) {
    const double ahead_s = arrival_s(ranks - 1) - arrival_s(id + 1);
    const bool fits = ahead_s > 0 && ahead_s >= (k[id + 1] + 1) * problem.segment_time_s;
    k[id] = k[id + 1] + (fits ? 1 : 0);
  }
  return k;
}

// The id where each part starts, lines 7-13: the first that reaches it.
std::vector<int> first_ids(const std::vector<int>& k) {
  std::vector<int> first(k.size());
  int id = 0;
  for (std::size_t part = 0; part < k.size(); ++part) {
    while (id + k[id] < int(part)) ++id;  // (a) printed: if
    first[part] = id;
  }
  return first;
}

}  // namespace

Steps prr(const Problem& problem, int rank) {
  const int ranks = problem.ranks;
  const ArrivalOrder order = arrival_order(problem, rank);
  const std::vector<int> k = pre_steps(problem, order);
  const std::vector<int> first = first_ids(k);
  const int id = order.id, next_id = (id + 1) % ranks;
  const auto last = [&](int j) { return (first[j] + ranks - 1) % ranks; };  // has part j's sum

  Steps steps;
  const auto pass = [&](int j, Verb take, bool takes, bool sends) {
    const Part range = part(j, ranks, problem.segments);
    for (int s = range.first; s < range.last; ++s) {
      if (takes) steps.push_back({take, order.previous(), s, s + 1});
      if (sends) steps.push_back({Verb::send, order.next(), s, s + 1});
    }
  };
  if (ranks == 1) return steps;
  int j = id + k[id];
  for (int i = 0; i < ranks; ++i, j = (j + ranks - 1) % ranks) {
    pass(j, Verb::recv_reduce, first[j] != id, last(j) != id);  // (b) printed: last(j) - 1
  }
  j = next_id + k[next_id];  // (c) printed: id + k[id]
  for (int i = 0; i < ranks; ++i, j = (j + ranks - 1) % ranks) {
    pass(j, Verb::recv, last(j) != id, last(j) != next_id);
  }
  return steps;
}

}  // namespace patallreduce::algorithms
