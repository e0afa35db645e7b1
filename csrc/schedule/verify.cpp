#include "schedule/verify.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <map>
#include <numeric>
#include <string>
#include <utility>
#include <vector>

#include "errors.h"
#include "schedule/parts.h"
#include "schedule/print.h"
#include "schedule/sum_order.h"
#include "schedule/tree.h"

namespace patallreduce::schedule {

namespace {

// What a rank has to end with in one segment; a number >= 0: that rank's own contribution.
enum Due : int { anything = -1, sum = -2, all_heard = -3 };

struct Collective {
  const char* name;
  int (*due)(const Problem& problem, int rank, int segment);
};

int owner(const Problem& problem, int segment) {
  int rank = int(std::int64_t(segment) * problem.ranks / problem.segments);
  while (part(rank, problem.ranks, problem.segments).last <= segment) ++rank;
  return rank;
}

constexpr Collective collectives[] = {
    {"all_reduce", [](const Problem&, int, int) -> int { return sum; }},
    {"reduce",
     [](const Problem& p, int rank, int) -> int { return rank == p.root ? sum : anything; }},
    {"reduce_scatter",
     [](const Problem& p, int rank, int segment) -> int {
       return rank == owner(p, segment) ? sum : anything;
     }},
    {"all_gather", [](const Problem& p, int, int segment) { return owner(p, segment); }},
    {"broadcast", [](const Problem& p, int, int) { return p.root; }},
    {"barrier", [](const Problem&, int, int) -> int { return all_heard; }},
};

const Collective& find_collective(const std::string& name) {
  std::string known;
  for (const Collective& collective : collectives) {
    if (name == collective.name) return collective;
    known += (known.empty() ? "" : ", ") + std::string(collective.name);
  }
  throw ScheduleError(concat("unknown collective '", name, "'; known: ", known));
}

// The step that made `rank`'s result in `segment`.
std::string last_writer(const Schedule& schedule, int rank, int segment) {
  const Steps& steps = schedule.steps[rank];
  for (std::size_t i = steps.size(); i-- > 0;) {
    if (steps[i].verb == Verb::send || segment < steps[i].first || segment >= steps[i].last) {
      continue;
    }
    return place(schedule, rank, i);
  }
  return concat("rank ", rank, " (no step writes segment ", segment, ")");
}

// What is wrong with a sum: a rank that is missing or comes twice; empty if nothing is.
// Stops at the first repetition, so it never visits more than 2 * ranks sums. Where a rank may come
// more than once every sum is visited once.
std::string flaw(const SumOrders& orders, std::int32_t number, int ranks, bool may_repeat) {
  std::vector<bool> found(may_repeat ? orders.sums.size() : ranks);
  std::vector<std::int32_t> left{number};
  while (!left.empty()) {
    const std::int32_t at = left.back();
    left.pop_back();
    const bool is_contribution = at < ranks;
    if ((is_contribution || may_repeat) && found[at]) {
      if (may_repeat) continue;
      return concat("the contribution of rank ", at, " comes more than once");
    }
    if (is_contribution || may_repeat) found[at] = true;
    if (!is_contribution) {
      left.push_back(orders.sums[at].received);
      left.push_back(orders.sums[at].held);
    }
  }
  for (int rank = 0; rank < ranks; ++rank) {
    if (!found[rank]) return concat("the contribution of rank ", rank, " is missing");
  }
  return {};
}

std::string held_instead(std::int32_t number, int ranks) {
  return number < ranks ? concat("that of rank ", number) : "a sum";
}

// The number of the tree's sum, -1 if the schedule never makes it.
std::int32_t tree_number(const SumOrders& orders, int ranks) {
  std::map<std::pair<std::int32_t, std::int32_t>, std::int32_t> numbers;
  for (std::size_t n = ranks; n < orders.sums.size(); ++n) {
    const SumOrders::Sum& sum = orders.sums[n];
    numbers[std::minmax(sum.received, sum.held)] = std::int32_t(n);
  }
  std::vector<std::int32_t> of_node(ranks);  // at the node's first rank
  std::iota(of_node.begin(), of_node.end(), 0);
  for (int height = 1; height <= tree_height(ranks); ++height) {
    for (std::int64_t first = 0; first < ranks; first += std::int64_t(1) << height) {
      const TreeNode node = tree_node(int(first), height, ranks);
      if (!node.has_right()) continue;
      const auto children = std::minmax(of_node[node.first], of_node[node.middle]);
      const auto found = numbers.find({children.first, children.second});
      if (found == numbers.end()) return -1;
      of_node[node.first] = found->second;
    }
  }
  return of_node[0];
}

std::string tree_text(int first, int height, int ranks) {
  if (height == 0) return std::to_string(first);
  const TreeNode node = tree_node(first, height, ranks);
  const std::string left = tree_text(node.first, height - 1, ranks);
  if (!node.has_right()) return left;
  return "(" + left + "+" + tree_text(node.middle, height - 1, ranks) + ")";
}

}  // namespace

void verify(const Schedule& schedule) {
  const Collective& collective = find_collective(schedule.collective);
  const SumOrders orders = sum_orders(schedule);
  const int ranks = schedule.problem.ranks, segments = schedule.problem.segments;
  const std::int32_t tree = schedule.tree ? tree_number(orders, ranks) : -1;
  std::vector<bool> complete(orders.sums.size());
  std::vector<int> summed_by(segments, -1);  // the first rank that has to have the sum
  for (int rank = 0; rank < ranks; ++rank) {
    for (int segment = 0; segment < segments; ++segment) {
      const int due = collective.due(schedule.problem, rank, segment);
      if (due == anything) continue;
      const std::int32_t result = orders.result[std::size_t(rank) * segments + segment];
      if (due >= 0) {
        PATR_CHECK(result == due, ScheduleError, last_writer(schedule, rank, segment),
                   ": in segment ", segment, " expected the contribution of rank ", due, ", got ",
                   held_instead(result, ranks));
        continue;
      }
      if (!complete[result]) {
        const std::string wrong = flaw(orders, result, ranks, due == all_heard);
        PATR_CHECK(wrong.empty(), ScheduleError, last_writer(schedule, rank, segment),
                   ": in segment ", segment, " ", wrong);
        complete[result] = true;
      }
      if (due == all_heard) continue;
      if (summed_by[segment] < 0) summed_by[segment] = rank;
      const int first = summed_by[segment];
      const std::int32_t expected = orders.result[std::size_t(first) * segments + segment];
      PATR_CHECK(result == expected, ScheduleError, last_writer(schedule, rank, segment),
                 ": segment ", segment, " is summed as ", text(orders, result, ranks), ", on rank ",
                 first, " as ", text(orders, expected, ranks));
      PATR_CHECK(!schedule.tree || result == tree, ScheduleError,
                 last_writer(schedule, rank, segment), ": segment ", segment, " is summed as ",
                 text(orders, result, ranks), ", expected the tree ",
                 tree_text(0, tree_height(ranks), ranks));
    }
  }
}

}  // namespace patallreduce::schedule
