#include "selection/schedules.h"

#include <algorithm>
#include <cmath>
#include <numeric>

namespace patallreduce::selection {

using algorithms::Uses;

namespace {

constexpr std::size_t most_prepared = 64;

}  // namespace

std::vector<std::size_t> order_of(const std::vector<double>& arrivals_s) {
  std::vector<std::size_t> order(arrivals_s.size());
  std::iota(order.begin(), order.end(), 0);
  std::stable_sort(order.begin(), order.end(),
                   [&](std::size_t a, std::size_t b) { return arrivals_s[a] < arrivals_s[b]; });
  return order;
}

std::vector<double> in_order(const std::vector<double>& values,
                             const std::vector<std::size_t>& order) {
  std::vector<double> ordered;
  ordered.reserve(order.size());
  for (const std::size_t rank : order) ordered.push_back(values[rank]);
  return ordered;
}

Sends sends_of(const std::string& algorithm) {
  const Algorithm* const known = algorithms::known_algorithm(algorithm, "all_reduce");
  return known ? known->sends : Sends::otherwise;
}

std::vector<double> chain_begins_s(const std::vector<double>& arrivals_s, double latency_s) {
  std::vector<double> begins_s = arrivals_s;
  const std::size_t ranks = arrivals_s.size();
  for (std::size_t place = 0; place + 1 < ranks; ++place) {
    const double tells_s = arrivals_s[std::min(place + 1, ranks - 2)];
    begins_s[place] = std::max(begins_s[place], tells_s + 2 * latency_s);
  }
  return begins_s;
}

double Schedules::quantum_s(const Algorithm& algorithm, const Bucket& bucket) const {
  const double partners = algorithm.sends == Sends::to_all_at_once ? link_.partners : 1;
  const double transfer_s = link_.transfer_s(static_cast<double>(bucket.bytes)) / partners;
  return (link_.latency_s + transfer_s / ranks_) / 2;
}

ScheduleKey Schedules::key_of(const Algorithm& candidate, int segments, const Bucket& bucket,
                              const std::vector<std::int32_t>& levels,
                              const std::vector<double>& arrivals_s) const {
  ScheduleKey key{candidate.name, segments, {}, 0};
  if (candidate.by_port) key.ports = link_.ports;
  if (candidate.uses == Uses::times) key.segment_time_s = 2;
  if (candidate.uses == Uses::nothing || candidate.uses == Uses::real_order) return key;
  if (candidate.uses == Uses::order) {
    std::vector<std::int32_t> present = levels;
    std::sort(present.begin(), present.end());
    present.erase(std::unique(present.begin(), present.end()), present.end());
    if (present.size() == 1) return key;
    for (const std::int32_t level : levels) {
      const auto found = std::lower_bound(present.begin(), present.end(), level);
      key.arrivals_s.push_back(static_cast<double>(found - present.begin()));
    }
  } else {
    const double first_s = *std::min_element(arrivals_s.begin(), arrivals_s.end());
    const double quantum_s = this->quantum_s(candidate, bucket);
    for (const double arrival_s : arrivals_s)
      key.arrivals_s.push_back(std::nearbyint((arrival_s - first_s) / quantum_s));
    if (*std::max_element(key.arrivals_s.begin(), key.arrivals_s.end()) == 0)
      key.arrivals_s.clear();
  }
  return key;
}

// Without arrivals: the order is the ranks'.
const Simulation& Schedules::prepared(const Algorithm& candidate, int segments) {
  const std::pair key(&candidate, segments);
  const auto found = prepared_.find(key);
  if (found != prepared_.end()) return found->second;
  Simulation simulation(generate(candidate, {ranks_, segments, {}, 0, 0}));
  return prepared_.emplace(key, std::move(simulation)).first->second;
}

Simulation Schedules::generated(const Algorithm& candidate, const ScheduleKey& key) const {
  return Simulation(
      generate(candidate, {ranks_, key.segments, key.arrivals_s, key.segment_time_s, 0}));
}

void Schedules::make_room() {
  if (prepared_.size() >= most_prepared) prepared_.clear();
}

}  // namespace patallreduce::selection
