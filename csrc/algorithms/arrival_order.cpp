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
  order.id = int(std::find(order.ranks.begin(), order.ranks.end(), rank) - order.ranks.begin());
  return order;
}

}  // namespace patallreduce::algorithms
