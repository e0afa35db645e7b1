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

}  // namespace

Steps around(const Problem& problem, const ArrivalOrder& order, std::vector<int> tops) {
  const int ranks = problem.ranks;
  Steps steps;
  if (ranks == 1) return steps;
  for (int id = ranks - 2; id >= 0; --id)
    if (order.same_node(id, id + 1)) tops[id] = tops[id + 1];
  const std::vector<int> start = starts(tops);
  const int id = order.id, next = (id + 1) % ranks, own_first = order.first_ids[id];
  const auto holder = [&](int j) { return (start[j] + ranks - 1) % ranks; };  // of part j's sum

  // Of part j, segment by segment: what is taken, and to whom it is then handed; -1: nobody.
  const auto pass = [&](int j, Verb take, int from, int to, int also) {
    const Part range = part(j, ranks, problem.segments);
    for (int s = range.first; s < range.last; ++s) {
      if (from >= 0) steps.push_back({take, order.ranks[from], s, s + 1});
      if (to >= 0) steps.push_back({Verb::send, order.ranks[to], s, s + 1});
      if (also >= 0) steps.push_back({Verb::send, order.ranks[also], s, s + 1});
    }
  };
  const int previous = (id + ranks - 1) % ranks;
  for (int i = 0, j = tops[id]; i < ranks; ++i, j = (j + ranks - 1) % ranks)
    pass(j, Verb::recv_reduce, start[j] == id ? -1 : previous, holder(j) == id ? -1 : next,
         -1);  // (b) prr, printed: holder(j) - 1
  // (c) prr, printed: the last part that this rank starts with, not the next one
  for (int i = 0, j = tops[next]; i < ranks; ++i, j = (j + ranks - 1) % ranks) {
    const int holds = holder(j), its_first = order.first_ids[holds];
    int from = id == its_first ? holds : previous, to = next, also = -1;
    if (id == holds) {
      from = -1;
      if (own_first != id) also = own_first;
    }
    if (next == holds || next == its_first) to = -1;
    pass(j, Verb::recv, from, to, also);
  }
  return steps;
}

}  // namespace patallreduce::algorithms
