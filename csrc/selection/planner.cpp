#include "selection/planner.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "errors.h"

namespace patallreduce::selection {

using algorithms::Uses;

namespace {

constexpr double quanta_per_scale = 64;
constexpr double most_quanta = 1e6;
constexpr std::size_t most_known = 512;
// Messages of an iteration that are simulated in a millisecond or two.
constexpr std::size_t most_messages = 16384, most_messages_sampled = 4096;
constexpr int samples = 3;  // the forecast itself and one to either side of it
// What is slower than a plan may be by so much of the pace, as forecast, is not tried under
// samples.
constexpr double hopeless = 0.1;

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

double largest(const std::vector<double>& values) {
  return values.empty() ? 0 : *std::max_element(values.begin(), values.end());
}

// The forecast in whole quanta, the first arrival at 0.
IterationForecast in_quanta(IterationForecast forecast, double quantum_s) {
  double first_s = HUGE_VAL;
  for (const auto& arrivals_s : forecast.arrivals_s)
    first_s = std::min(first_s, *std::min_element(arrivals_s.begin(), arrivals_s.end()));
  const auto round = [&](std::vector<double>& values, double zero_s) {
    for (double& value : values)
      value = std::nearbyint(std::min((value - zero_s) / quantum_s, most_quanta)) * quantum_s;
  };
  for (auto& arrivals_s : forecast.arrivals_s) round(arrivals_s, first_s);
  round(forecast.errors_s, 0);
  round(forecast.compute_s, 0);
  round(forecast.spreads_s, 0);
  return forecast;
}

bool same(const std::vector<Way>& a, const std::vector<Way>& b) {
  return std::equal(a.begin(), a.end(), b.begin(), [](const Way& one, const Way& other) {
    return one.algorithm == other.algorithm && one.segments == other.segments;
  });
}

// Of a ring, which has the most.
std::size_t messages_of(std::size_t ranks) { return 2 * ranks * (ranks - 1); }

// With neighbours together, where so many would take too long to simulate; the last stays alone.
IterationForecast grouped(const IterationForecast& forecast) {
  const std::size_t buckets = forecast.buckets.size();
  const std::size_t ranks = forecast.arrivals_s.front().size();
  const std::size_t most =
      std::max<std::size_t>(2, most_messages / std::max<std::size_t>(messages_of(ranks), 1));
  if (buckets <= most) return forecast;
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
    const std::uint64_t share = all * (groups.buckets.size() + 1) / (most - 1);
    if (b + 2 < buckets && before + group.bytes < share) continue;
    before += group.bytes;
    groups.buckets.push_back(std::exchange(group, {0, 0}));
    groups.arrivals_s.push_back(forecast.arrivals_s[b]);
  }
  return groups;
}

}  // namespace

Planner::Planner(int ranks, Link link, double margin)
    : ranks_(ranks),
      link_(std::move(link)),
      margin_(margin),
      selector_(ranks, link_),
      schedules_(ranks, link_),
      rollout_(ranks, link_) {}

IterationPlan Planner::plan(const IterationForecast& forecast) {
  check(forecast, ranks_);
  if (forecast.buckets.empty() || ranks_ == 1) return {};
  const double quantum_s = scale_s(forecast.buckets) / quanta_per_scale;
  if (quantum_s == 0) return {};
  const std::lock_guard lock(mutex_);
  const IterationForecast rounded = in_quanta(forecast, quantum_s);
  std::vector<double> known_by;
  for (const Bucket& bucket : rounded.buckets) {
    known_by.push_back(static_cast<double>(bucket.bytes));
    known_by.push_back(static_cast<double>(bucket.elements));
  }
  const auto add = [&](const std::vector<double>& values) {
    known_by.insert(known_by.end(), values.begin(), values.end());
    known_by.push_back(-1);
  };
  for (const auto& arrivals_s : rounded.arrivals_s) add(arrivals_s);
  add(rounded.errors_s);
  add(rounded.compute_s);
  add(rounded.spreads_s);
  const auto found = known_.find(known_by);
  if (found != known_.end()) return found->second;
  if (known_.size() == most_known) known_.clear();
  return known_.emplace(std::move(known_by), price(rounded, quantum_s)).first->second;
}

// The messages once through a port, and the latencies of a tree.
double Planner::scale_s(const std::vector<Bucket>& buckets) const {
  double transfer_s = 0;
  for (const Bucket& bucket : buckets)
    transfer_s += link_.transfer_s(static_cast<double>(bucket.bytes));
  return transfer_s + 2 * link_.latency_s * (1 + std::log2(ranks_));
}

// What calls take by themselves.
std::vector<Way> Planner::plain(const std::vector<Bucket>& buckets) {
  std::vector<Way> ways;
  const std::vector<double> together(std::size_t(ranks_), 0);
  for (const Bucket& bucket : buckets) {
    const std::size_t element_bytes = bucket.elements ? bucket.bytes / bucket.elements : 1;
    const ScheduleKey key =
        selector_.choose(bucket.elements, element_bytes, {together, {}, {}}).key;
    ways.push_back({&algorithms::find_algorithm(key.algorithm, "all_reduce"), key.segments});
  }
  return ways;
}

IterationPlan Planner::price(const IterationForecast& every, double quantum_s) {
  const IterationForecast forecast = grouped(every);
  const bool doubtful = largest(forecast.errors_s) > 0 || largest(forecast.spreads_s) > 0;
  const double begin_s = largest(forecast.arrivals_s.back());
  const auto end_s = [&](const std::vector<Way>& ways, int first, int last) {
    double sum_s = 0;
    for (int sample = first; sample < last; ++sample)
      sum_s += rollout_.end_s(ways, forecast, sample);
    return sum_s;
  };
  const std::size_t messages = messages_of(std::size_t(ranks_)) * forecast.buckets.size();
  const int runs = doubtful && messages <= most_messages_sampled ? samples : 1;
  const std::vector<Way> plain_ways = plain(forecast.buckets);
  const double plain_s = end_s(plain_ways, 0, 1);
  const double hopeless_s = plain_s + (hopeless - margin_) * (plain_s - begin_s);
  double all_plain_s = 0;
  const Algorithm* best = nullptr;
  double best_s = HUGE_VAL;
  for (const Algorithm* candidate : algorithms::candidates()) {
    // Where nothing is in doubt the order is the forecast's. Messages that tell who came wait
    // behind the data of other buckets, longer than any model here knows.
    if (candidate->dynamic() && (!doubtful || every.buckets.size() > 1)) continue;
    if (ranks_ > most_simulated_ranks && !candidate->pricing.estimate) continue;
    std::vector<Way> ways;
    for (const Bucket& bucket : forecast.buckets)
      ways.push_back({candidate, int(segments_for(*candidate, ranks_, bucket, link_))});
    if (same(ways, plain_ways)) continue;
    double candidate_s = end_s(ways, 0, 1);
    if (candidate_s > hopeless_s) continue;
    candidate_s += end_s(ways, 1, runs);
    if (all_plain_s == 0) all_plain_s = plain_s + end_s(plain_ways, 1, runs);
    if (candidate_s < best_s) best_s = candidate_s, best = candidate;
  }
  if (!best) all_plain_s = runs * plain_s;
  const auto pace_s = [&](double sum_s) { return (sum_s / runs - begin_s) / look_ahead; };
  IterationPlan plan{{}, pace_s(all_plain_s), pace_s(all_plain_s)};
  if (!best || pace_s(best_s) > (1 - margin_) * plan.plain_pace_s) return plan;
  plan.pace_s = pace_s(best_s);
  plan.keys = keys(*best, every, quantum_s);
  return plan;
}

std::vector<ScheduleKey> Planner::keys(const Algorithm& algorithm,
                                       const IterationForecast& forecast, double quantum_s) const {
  std::vector<ScheduleKey> keys;
  for (std::size_t b = 0; b < forecast.buckets.size(); ++b) {
    const Bucket& bucket = forecast.buckets[b];
    std::vector<std::int32_t> levels;
    for (const double arrival_s : forecast.arrivals_s[b])
      levels.push_back(static_cast<std::int32_t>(arrival_s / quantum_s + 0.5));
    const int segments = int(segments_for(algorithm, ranks_, bucket, link_));
    keys.push_back(schedules_.key_of(algorithm, segments, bucket, levels, forecast.arrivals_s[b]));
  }
  return keys;
}

}  // namespace patallreduce::selection
