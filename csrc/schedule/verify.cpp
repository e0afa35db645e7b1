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
#include "schedule/print.h"
#include "schedule/sum_order.h"
#include "schedule/tree.h"

namespace patallreduce {

namespace {

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
// Stops at the first repetition, so it never visits more than 2 * ranks sums.
std::string flaw(const SumOrders& orders, std::int32_t number, int ranks) {
  std::vector<bool> found(ranks);
  std::vector<std::int32_t> left{number};
  while (!left.empty()) {
    const std::int32_t at = left.back();
    left.pop_back();
    if (at >= ranks) {
      left.push_back(orders.sums[at].received);
      left.push_back(orders.sums[at].held);
    } else if (found[at]) {
      return concat("the contribution of rank ", at, " comes more than once");
    } else {
      found[at] = true;
    }
  }
  for (int rank = 0; rank < ranks; ++rank) {
    if (!found[rank]) return concat("the contribution of rank ", rank, " is missing");
  }
  return {};
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
  const bool reduce = schedule.collective == "reduce";
  PATR_CHECK(reduce || schedule.collective == "all_reduce", ScheduleError, "unknown collective '",
             schedule.collective, "'; known: all_reduce, reduce");
  const SumOrders orders = sum_orders(schedule);
  const int ranks = schedule.problem.ranks, segments = schedule.problem.segments;
  const int begin = reduce ? schedule.problem.root : 0, end = reduce ? begin + 1 : ranks;
  const std::int32_t tree = schedule.tree ? tree_number(orders, ranks) : -1;
  std::vector<bool> complete(orders.sums.size());
  for (int rank = begin; rank < end; ++rank) {
    for (int segment = 0; segment < segments; ++segment) {
      const std::int32_t result = orders.result[std::size_t(rank) * segments + segment];
      if (!complete[result]) {
        const std::string wrong = flaw(orders, result, ranks);
        PATR_CHECK(wrong.empty(), ScheduleError, last_writer(schedule, rank, segment),
                   ": in segment ", segment, " ", wrong);
        complete[result] = true;
      }
      const std::int32_t expected = orders.result[std::size_t(begin) * segments + segment];
      PATR_CHECK(result == expected, ScheduleError, last_writer(schedule, rank, segment),
                 ": segment ", segment, " is summed as ", text(orders, result, ranks), ", on rank ",
                 begin, " as ", text(orders, expected, ranks));
      PATR_CHECK(!schedule.tree || result == tree, ScheduleError,
                 last_writer(schedule, rank, segment), ": segment ", segment, " is summed as ",
                 text(orders, result, ranks), ", expected the tree ",
                 tree_text(0, tree_height(ranks), ranks));
    }
  }
}

}  // namespace patallreduce
