#include "algorithms/around.h"

#include <cstddef>

#include "schedule/parts.h"

namespace patallreduce::algorithms {

using schedule::Part;
using schedule::part;
using schedule::Verb;

namespace {

// The id where each part starts: the first that reaches it. Of prr lines 7-13.
std::vector<int> starts(const std::vector<int>& tops) {
  std::vector<int> start(tops.size());
  int id = 0;
  for (std::size_t part = 0; part < tops.size(); ++part) {
    while (tops[id] < int(part)) ++id;  // (a) prr, printed: if
    start[part] = id;
  }
  return start;
}

// Of a part, segment by segment: what is taken, and to whom it is then handed. Ids; -1: nobody.
void append_part(const Problem& problem, const ArrivalOrder& order, int of, Verb take, int from,
                 int to, int also, Steps& steps) {
  const Part range = part(of, problem.ranks, problem.segments);
  for (int s = range.first; s < range.last; ++s) {
    if (from >= 0) steps.push_back({take, order.ranks[from], s, s + 1});
    if (to >= 0) steps.push_back({Verb::send, order.ranks[to], s, s + 1});
    if (also >= 0) steps.push_back({Verb::send, order.ranks[also], s, s + 1});
  }
}

}  // namespace

Steps around(const Problem& problem, const ArrivalOrder& order, std::vector<int> tops) {
  const int ranks = problem.ranks;
  Steps steps;
  if (ranks == 1) return steps;
  for (int id = ranks - 2; id >= 0; --id)
    if (order.same_node(id, id + 1)) tops[id] = tops[id + 1];
  const std::vector<int> start = starts(tops);
  std::vector<int> holders;
  for (const int id : start) holders.push_back((id + ranks - 1) % ranks);
  const int id = order.id, next = (id + 1) % ranks, previous = (id + ranks - 1) % ranks;
  for (int i = 0, j = tops[id]; i < ranks; ++i, j = (j + ranks - 1) % ranks)
    append_part(problem, order, j, Verb::recv_reduce, start[j] == id ? -1 : previous,
                holders[j] == id ? -1 : next, -1, steps);  // (b) prr, printed: holder(j) - 1
  // (c) prr, printed: the last part that this rank starts with, not the next one
  append_results(problem, order, holders, tops[next], steps);
  return steps;
}

void append_results(const Problem& problem, const ArrivalOrder& order,
                    const std::vector<int>& holders, int first, Steps& steps) {
  const int ranks = problem.ranks, id = order.id, own_first = order.first_ids[id];
  const int next = (id + 1) % ranks, previous = (id + ranks - 1) % ranks;
  for (int i = 0, j = first; i < ranks; ++i, j = (j + ranks - 1) % ranks) {
    const int holds = holders[j], its_first = order.first_ids[holds];
    int from = id == its_first ? holds : previous, to = next, also = -1;
    if (id == holds) {
      from = -1;
      if (own_first != id) also = own_first;
    }
    if (next == holds || next == its_first) to = -1;
    append_part(problem, order, j, Verb::recv, from, to, also, steps);
  }
}

}  // namespace patallreduce::algorithms
