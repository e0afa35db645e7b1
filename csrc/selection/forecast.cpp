#include "selection/forecast.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <utility>

#include "errors.h"
#include "selection/pattern.h"

namespace patallreduce::selection {

namespace {

constexpr double most_quanta = 1e6;

}  // namespace

void check(const IterationForecast& forecast, int ranks) {
  PATR_CHECK(forecast.arrivals_s.size() == forecast.buckets.size(), ScheduleError,
             "forecast: expected arrivals of ", forecast.buckets.size(), " buckets, got ",
             forecast.arrivals_s.size());
  for (const auto& arrivals_s : forecast.arrivals_s)
    check_values("arrivals_s", arrivals_s, ranks, -HUGE_VAL);
  const auto check_optional = [&](const char* name, const std::vector<double>& values) {
    if (!values.empty()) check_values(name, values, ranks, 0);
  };
  check_optional("errors_s", forecast.errors_s);
  check_optional("compute_s", forecast.compute_s);
  check_optional("spreads_s", forecast.spreads_s);
}

double smallest(const std::vector<double>& values) {
  return values.empty() ? 0 : *std::min_element(values.begin(), values.end());
}

double largest(const std::vector<double>& values) {
  return values.empty() ? 0 : *std::max_element(values.begin(), values.end());
}

double from_zero(std::vector<std::vector<double>>& arrivals_s) {
  double first_s = HUGE_VAL;
  for (const auto& of_bucket_s : arrivals_s)
    first_s = std::min(first_s, *std::min_element(of_bucket_s.begin(), of_bucket_s.end()));
  for (auto& of_bucket_s : arrivals_s)
    for (double& at_s : of_bucket_s) at_s -= first_s;
  return first_s;
}

std::vector<double> in_quanta(const IterationForecast& forecast, double quantum_s) {
  std::vector<double> values;
  for (const Bucket& bucket : forecast.buckets) {
    values.push_back(static_cast<double>(bucket.bytes));
    values.push_back(static_cast<double>(bucket.elements));
  }
  const auto add = [&](const std::vector<double>& times_s) {
    for (const double time_s : times_s)
      values.push_back(std::nearbyint(std::min(time_s / quantum_s, most_quanta)));
    values.push_back(-1);
  };
  for (const auto& arrivals_s : forecast.arrivals_s) add(arrivals_s);
  add(forecast.errors_s);
  add(forecast.compute_s);
  add(forecast.spreads_s);
  values.push_back(forecast.barrier);
  values.insert(values.end(), forecast.before.begin(), forecast.before.end());
  return values;
}

IterationForecast grouped(const IterationForecast& forecast, std::size_t messages,
                          std::size_t most) {
  const std::size_t buckets = forecast.buckets.size();
  const std::size_t most_groups =
      std::max<std::size_t>(2, buckets * most / std::max<std::size_t>(messages, 1));
  if (buckets <= most_groups) return forecast;
  std::uint64_t all = 0;
  for (const Bucket& bucket : forecast.buckets) all += bucket.bytes;
  IterationForecast groups = forecast;
  groups.buckets.clear();
  groups.arrivals_s.clear();
  std::uint64_t before = 0;  // bytes of the groups that are complete
  Bucket group{0, 0};
  for (std::size_t b = 0; b < buckets; ++b) {
    group.bytes += forecast.buckets[b].bytes;
    group.elements += forecast.buckets[b].elements;
    const std::uint64_t share = all * (groups.buckets.size() + 1) / (most_groups - 1);
    if (b + 2 < buckets && before + group.bytes < share) continue;
    before += group.bytes;
    groups.buckets.push_back(std::exchange(group, {0, 0}));
    groups.arrivals_s.push_back(forecast.arrivals_s[b]);
  }
  return groups;
}

}  // namespace patallreduce::selection
