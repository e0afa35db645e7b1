#include "selection/nodes.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <utility>

#include "errors.h"
#include "selection/schedules.h"

namespace patallreduce::selection {

Nodes::Nodes(int ranks, std::vector<std::int32_t> node_of)
    : ranks_(ranks), count_(ranks), node_of_(std::move(node_of)) {
  if (!shared()) return;
  schedule::Problem problem;
  problem.ranks = ranks;
  problem.node_of = node_of_;
  check(problem);
  std::map<std::int32_t, std::int32_t> numbers;  // in the order of their first ranks
  std::vector<int> sizes;
  for (std::int32_t& node : node_of_) {
    const auto number = static_cast<std::int32_t>(numbers.size());
    node = numbers.emplace(node, number).first->second;
    if (std::size_t(node) == sizes.size()) sizes.push_back(0);
    most_ranks_ = std::max(most_ranks_, ++sizes[std::size_t(node)]);
  }
  count_ = static_cast<int>(sizes.size());
}

std::vector<double> Nodes::latest(const std::vector<double>& by_rank) const {
  if (!shared() || by_rank.empty()) return by_rank;
  std::vector<double> by_node(std::size_t(count_), -HUGE_VAL);
  for (std::size_t rank = 0; rank < by_rank.size(); ++rank) {
    double& of_node = by_node[std::size_t(node_of_[rank])];
    of_node = std::max(of_node, by_rank[rank]);
  }
  return by_node;
}

std::vector<double> Nodes::by_rank(const std::vector<double>& by_node) const {
  if (!shared() || by_node.empty()) return by_node;
  std::vector<double> values;
  for (const std::int32_t node : node_of_) values.push_back(by_node[std::size_t(node)]);
  return values;
}

IterationForecast Nodes::forecast(const IterationForecast& of_ranks) const {
  if (!shared()) return of_ranks;
  IterationForecast of_nodes = of_ranks;
  of_nodes.arrivals_s.clear();
  of_nodes.errors_s = latest(of_ranks.errors_s);
  of_nodes.compute_s = latest(of_ranks.compute_s);
  of_nodes.spreads_s = latest(of_ranks.spreads_s);
  for (const auto& arrivals_s : of_ranks.arrivals_s)
    of_nodes.arrivals_s.push_back(latest(arrivals_s));
  return of_nodes;
}

// Between two nodes' times there is room for those of their ranks, the last of which has the
// node's.
ScheduleKey Nodes::of_ranks(ScheduleKey key, std::uint64_t elements,
                            const std::vector<double>& arrivals_s) const {
  if (!shared()) return key;
  // Parts are those of the ranks.
  const int whole = (key.segments + ranks_ - 1) / ranks_ * ranks_;
  key.segments = int(std::clamp<std::uint64_t>(elements, 1, std::uint64_t(whole)));
  key.node_of = node_of_;
  if (!key.ports.empty()) {
    const std::vector<std::int32_t> of_nodes = std::exchange(key.ports, {});
    for (const std::int32_t node : node_of_) key.ports.push_back(of_nodes[std::size_t(node)]);
  }
  if (key.arrivals_s.empty()) return key;
  const std::vector<double> of_nodes = std::exchange(key.arrivals_s, by_rank(key.arrivals_s));
  std::vector<int> before(of_nodes.size(), most_ranks_ - 1);  // the node's last rank
  const std::vector<std::size_t> order = order_of(arrivals_s);
  for (auto rank = order.rbegin(); rank != order.rend(); ++rank) {
    double& arrival_s = key.arrivals_s[*rank];
    arrival_s = arrival_s * most_ranks_ + before[std::size_t(node_of_[*rank])]--;
  }
  key.segment_time_s *= most_ranks_;
  return key;
}

ScheduleKey Nodes::of_nodes(ScheduleKey key) const {
  if (!shared()) return key;
  key.node_of.clear();
  key.ports.clear();  // the link has them
  key.segment_time_s /= most_ranks_;
  key.arrivals_s = latest(key.arrivals_s);
  for (double& arrival_s : key.arrivals_s) arrival_s = std::floor(arrival_s / most_ranks_);
  return key;
}

}  // namespace patallreduce::selection
