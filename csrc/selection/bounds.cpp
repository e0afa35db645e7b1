#include "selection/bounds.h"

#include <algorithm>
#include <cstdint>
#include <numeric>
#include <vector>

#include "pricing/lower_bound.h"

namespace patallreduce::selection {

namespace {

constexpr std::size_t most_turns = 16384;  // at all ports

}  // namespace

double least_end_s(const IterationForecast& forecast, int ranks, const Link& link) {
  const std::size_t buckets = forecast.buckets.size();
  if (std::size_t(ranks) * buckets * buckets > most_turns) return -HUGE_VAL;
  std::vector<std::uint64_t> bytes;
  for (const Bucket& bucket : forecast.buckets) bytes.push_back(bucket.bytes);
  const auto bound = pricing::lower_bound(link, bytes, forecast.arrivals_s);
  double least_s = bound.last_finish_s + smallest(forecast.compute_s);
  for (std::size_t rank = 0; rank < forecast.compute_s.size(); ++rank)
    least_s = std::max(least_s, bound.finish_s[rank] + forecast.compute_s[rank]);
  return least_s;
}

double least_pace_s(const IterationForecast& forecast, int ranks, const Link& link) {
  double transfer_s = 0;
  for (const Bucket& bucket : forecast.buckets)
    transfer_s += link.transfer_s(static_cast<double>(bucket.bytes));
  double ports = ranks;  // in the narrowest's
  if (link.processors > 0) ports = std::min(2 * ports, double(link.processors));
  if (!link.ports.empty())
    ports = std::accumulate(link.ports.begin(), link.ports.end(), 0.0) /
            *std::min_element(link.ports.begin(), link.ports.end());
  const double least_s = std::max(2.0 * (ranks - 1) / ports, link.ports.empty() ? 0.0 : 1.0);
  return std::max(largest(forecast.compute_s), least_s * transfer_s / link.partners);
}

double least_end_s(const IterationForecast& forecast, const Way& way, const Link& link) {
  const auto& estimate = way.algorithm->pricing.estimate;
  if (!estimate || link.processors > 0) return -HUGE_VAL;  // it knows of ports
  std::vector<double> arrivals_s = forecast.arrivals_s.back();
  if (way.algorithm->uses == algorithms::Uses::order)
    std::sort(arrivals_s.begin(), arrivals_s.end());
  const auto bytes = static_cast<double>(forecast.buckets.back().bytes);
  return largest(estimate(arrivals_s, way.segments, bytes, link)) +
         look_ahead * smallest(forecast.compute_s);
}

}  // namespace patallreduce::selection
