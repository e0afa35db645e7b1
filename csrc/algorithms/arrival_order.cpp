#include "algorithms/arrival_order.h"

#include <algorithm>
#include <numeric>

namespace patallreduce::algorithms {

ArrivalOrder arrival_order(const Problem& problem, int rank) {
  ArrivalOrder order;
  order.ranks.resize(problem.ranks);
  std::iota(order.ranks.begin(), order.ranks.end(), 0);
  if (!problem.arrivals_s.empty()) {
    std::stable_sort(order.ranks.begin(), order.ranks.end(), [&](std::int32_t a, std::int32_t b) {
      return problem.arrivals_s[a] < problem.arrivals_s[b];
    });
  }
  order.first_ids.resize(problem.ranks);
  std::iota(order.first_ids.begin(), order.first_ids.end(), 0);
  if (!problem.node_of.empty()) {
    const auto node = [&](int id) { return problem.node_of[order.ranks[id]]; };
    std::vector<int> last_ids(problem.ranks);  // by node: of its last rank
    for (int id = 0; id < problem.ranks; ++id) last_ids[node(id)] = id;
    std::stable_sort(order.ranks.begin(), order.ranks.end(), [&](std::int32_t a, std::int32_t b) {
      return last_ids[problem.node_of[a]] < last_ids[problem.node_of[b]];
    });
    for (int id = 1; id < problem.ranks; ++id)
      if (node(id) == node(id - 1)) order.first_ids[id] = order.first_ids[id - 1];
  }
  order.id = int(std::find(order.ranks.begin(), order.ranks.end(), rank) - order.ranks.begin());
  return order;
}

}  // namespace patallreduce::algorithms
