#include "selection/search.h"

#include <algorithm>
#include <cmath>

#include "selection/bounds.h"

namespace patallreduce::selection {

using algorithms::Pricing;
using algorithms::Uses;

namespace {

// A plan's order tells ranks apart by these.
constexpr double orders_per_scale = 1024, most_orders = 1e9;
// Messages of an iteration that are simulated in some milliseconds.
constexpr std::size_t most_messages = 16384, most_messages_sampled = 4096;
constexpr int samples = 3;               // the forecast itself and one to either side of it
constexpr std::size_t most_sampled = 2;  // policies
// Of the margin: by so much another algorithm has to win that is nearly as good as the one before.
// Which of two is better depends on where ranks are in step, and so would change again and again;
// not beside a barrier, where they all are.
constexpr double change_share = 0.5;
// Of the transfer time: a model errs about messages, not about what is computed between them.
constexpr double most_margin = 0.06;

bool same(const std::vector<Way>& a, const std::vector<Way>& b) {
  return std::equal(a.begin(), a.end(), b.begin(), [](const Way& one, const Way& other) {
    const bool alike = one.planned == other.planned || one.algorithm->uses == Uses::nothing;
    return alike && one.algorithm == other.algorithm && one.segments == other.segments;
  });
}

// A job's ports hardly rest.
Link steady(Link link) {
  link.burst_bytes = 0;
  return link;
}

}  // namespace

Search::Search(const Nodes& nodes, const Link& link, double margin, Selector& selector)
    : nodes_(nodes),
      ranks_(nodes.count()),
      margin_(margin),
      link_(steady(link)),
      selector_(selector),
      schedules_(ranks_, link_),
      rollout_(ranks_, link_) {}

double Search::scale_s(const std::vector<Bucket>& buckets) const {
  double transfer_s = 0;
  for (const Bucket& bucket : buckets)
    transfer_s += link_.transfer_s(static_cast<double>(bucket.bytes));
  return transfer_s + 2 * link_.latency_s * (1 + std::log2(ranks_));
}

// What calls take by themselves; what nobody prices, by a rule, is taken for the usual one.
std::vector<Way> Search::plain(const std::vector<Bucket>& buckets) {
  std::vector<Way> ways;
  const std::vector<double> together(std::size_t(ranks_), 0);
  for (const Bucket& bucket : buckets) {
    const std::size_t element_bytes = bucket.elements ? bucket.bytes / bucket.elements : 1;
    const ScheduleKey key =
        buckets.size() > 1 ? selector_.choose_beside_others(bucket.elements, element_bytes).key
                           : selector_.choose(bucket.elements, element_bytes, {together, {}}).key;
    const Algorithm* algorithm = &algorithms::find_algorithm(key.algorithm, "all_reduce");
    int segments = key.segments;
    if (!algorithm->pricing.parts) {
      algorithm = &algorithms::usual_algorithm("all_reduce");
      segments = segments_for(*algorithm, ranks_, bucket, link_);
    }
    ways.push_back({algorithm, segments, false});
  }
  return ways;
}

std::vector<Way> Search::ways(const Algorithm& algorithm,
                              const std::vector<Bucket>& buckets) const {
  std::vector<Way> ways;
  for (const Bucket& bucket : buckets)
    ways.push_back({&algorithm, segments_for(algorithm, ranks_, bucket, link_)});
  return ways;
}

// Means under the forecast and samples around it. Only the best under the forecast are sampled.
void Search::sample(std::vector<Policy>& policies, const IterationForecast& forecast, int runs,
                    double (*end_s)(const Policy&)) {
  std::stable_sort(policies.begin(), policies.end(),
                   [&](const Policy& a, const Policy& b) { return end_s(a) < end_s(b); });
  if (policies.size() > most_sampled) policies.resize(most_sampled);
  for (Policy& policy : policies) {
    if (std::isinf(policy.ends_s.back())) break;
    for (int sample = 1; sample < runs; ++sample) {
      const Ends ends_s = rollout_.ends_s(policy.now, policy.then, forecast, sample);
      for (std::size_t i = 0; i < ends_s.size(); ++i) policy.ends_s[i] += ends_s[i];
    }
    for (double& at_s : policy.ends_s) at_s /= runs;
  }
}

Chosen Search::choose(const IterationForecast& every) {
  const bool doubtful = largest(every.errors_s) > 0 || largest(every.spreads_s) > 0;
  const std::vector<Way> every_plain = plain(every.buckets);
  const std::size_t buckets = every.buckets.size();
  std::size_t messages = 0;
  for (const Way& way : every_plain) messages += rollout_.messages(way, 1);
  const auto without = [&](const IterationForecast& forecast) {
    const std::vector<Way> ways = plain(forecast.buckets);
    return Policy{nullptr, ways, ways, rollout_.ends_s(ways, ways, forecast, 0)};
  };
  const double start_s = largest(every.arrivals_s.back());
  const IterationForecast few = grouped(every, messages, most_messages);
  const Policy plain_of_few = without(few);
  const double few_pace_s = pace_s(plain_of_few.ends_s, start_s);
  const double margin_s = std::min(margin_ * few_pace_s, most_margin * scale_s(every.buckets));
  const double first_end_s = least_end_s(few, ranks_, link_);
  if (margin_ >= 0 && plain_of_few.ends_s.front() - first_end_s <= margin_s)
    return {nullptr, few_pace_s, few_pace_s};
  std::vector<const Algorithm*> candidates;
  for (const Algorithm* candidate : algorithms::candidates(nodes_.shared())) {
    // Where nothing is in doubt the order is the forecast's. Messages that tell who came wait
    // behind the data of other buckets, longer than any model here knows.
    if (candidate->dynamic() && (!doubtful || buckets > 1)) continue;
    const Pricing& pricing = candidate->pricing;
    if (ranks_ > (pricing.flow ? most_flowing_ranks : most_simulated_ranks) && !pricing.estimate)
      continue;
    const std::vector<Way> ways = this->ways(*candidate, every.buckets);
    if (same(ways, every_plain)) continue;
    if (margin_ >= 0 && least_end_s(every, ways.back(), link_) > plain_of_few.ends_s.back())
      continue;
    // Grouped for one that takes many messages, buckets would hide less latency in all of them.
    const std::size_t of_candidate = rollout_.messages(ways.back(), buckets);
    if (messages <= most_messages && of_candidate > most_messages) continue;
    candidates.push_back(candidate);
    messages = std::max(messages, of_candidate);
  }
  const IterationForecast forecast = grouped(every, messages, most_messages);
  const bool samples_it = doubtful && messages <= most_messages_sampled;
  const int runs = samples_it ? samples : 1;
  std::vector<Policy> plain{forecast.buckets.size() == few.buckets.size() ? plain_of_few
                                                                          : without(forecast)};
  const double iteration_s = pace_s(plain.front().ends_s, start_s);
  const Ends limits_s =
      later(plain.front().ends_s, iteration_s + std::max(-margin_s * horizon, 0.0));
  std::vector<Policy> always;
  const double least_s = least_pace_s(forecast, ranks_, link_);
  double best_s = iteration_s;
  for (const Algorithm* candidate : candidates) {
    // Schedules that are made from times take longest to simulate.
    const bool nearly_best = margin_ >= 0 && best_s - least_s < margin_s / 2;
    if (candidate->uses == Uses::times && nearly_best) continue;
    const std::vector<Way> ways = this->ways(*candidate, forecast.buckets);
    const bool changes = !every.before.empty() && candidate->name != every.before && !every.barrier;
    always.push_back({candidate, ways, ways, rollout_.ends_s(ways, ways, forecast, 0, limits_s),
                      changes ? change_share * std::max(margin_s, 0.0) * horizon : 0});
    best_s = std::min(best_s, pace_s(always.back().ends_s, start_s));
  }
  sample(plain, forecast, runs, far_end_s);
  sample(always, forecast, runs, far_end_s);
  const Policy& usual = earliest(always, plain.front(), margin_s * horizon, far_end_s);
  Ends once_limits_s = later(usual.ends_s, iteration_s / 4);
  once_limits_s.front() = usual.ends_s.front();
  std::vector<Policy> once;
  const auto consider = [&](const Algorithm* candidate, const std::vector<Way>& ways) {
    if (candidate == usual.candidate) return;
    const Ends ends_s = rollout_.ends_s(ways, usual.now, forecast, 0, once_limits_s);
    once.push_back({candidate, ways, usual.now, ends_s});
  };
  if (margin_ < 0 || usual.ends_s.front() - first_end_s > margin_s) {
    for (const Algorithm* candidate : candidates)
      consider(candidate, this->ways(*candidate, forecast.buckets));
    if (margin_ >= 0) consider(nullptr, plain.front().now);
  }
  sample(once, forecast, runs, near_end_s);
  const Policy& best = earliest(once, usual, std::max(margin_s, 0.0), near_end_s);
  const double plain_pace_s = pace_s(plain.front().ends_s, start_s);
  if (!best.candidate) return {nullptr, plain_pace_s, plain_pace_s};
  const double won_s = usual.ends_s.back() - best.ends_s.back();
  return {best.candidate, pace_s(usual.ends_s, start_s) - won_s, plain_pace_s};
}

std::vector<ScheduleKey> Search::keys(const Algorithm& algorithm,
                                      const IterationForecast& forecast) const {
  const double quantum_s = scale_s(forecast.buckets) / orders_per_scale;
  std::vector<std::int32_t> levels;
  for (const double arrival_s : forecast.arrivals_s.back())
    levels.push_back(static_cast<std::int32_t>(std::min(arrival_s / quantum_s, most_orders) + 0.5));
  std::vector<ScheduleKey> keys;
  for (std::size_t b = 0; b < forecast.buckets.size(); ++b) {
    const Bucket& bucket = forecast.buckets[b];
    const int segments = segments_for(algorithm, ranks_, bucket, link_);
    keys.push_back(schedules_.key_of(algorithm, segments, bucket, levels, forecast.arrivals_s[b]));
  }
  return keys;
}

std::vector<double> Search::finish_s(const std::vector<ScheduleKey>& keys,
                                     const IterationForecast& arrived) {
  std::vector<Way> ways;
  std::vector<std::vector<double>> expected_s;
  for (std::size_t b = 0; b < keys.size(); ++b) {
    const ScheduleKey key = nodes_.of_nodes(keys[b]);
    const Algorithm& algorithm = algorithms::find_algorithm(key.algorithm, "all_reduce");
    ways.push_back({&algorithm, key.segments});
    expected_s.push_back(key.arrivals_s);
    expected_s.back().resize(std::size_t(ranks_), 0);
    const bool times = algorithm.uses == Uses::times;
    for (double& at_s : expected_s.back())
      at_s *= times ? schedules_.quantum_s(algorithm, arrived.buckets[b]) : 1;
  }
  if (keys.empty()) {
    ways = plain(arrived.buckets);
    expected_s = nodes_.forecast(arrived).arrivals_s;
  }
  std::size_t messages = 0;
  for (const Way& way : ways) messages += rollout_.messages(way, 1);
  if (messages > most_messages) return {};
  std::vector<std::vector<double>> arrivals_s = nodes_.forecast(arrived).arrivals_s;
  const double first_s = from_zero(arrivals_s);
  pricing::PortsBusy busy;
  std::vector<double> finish_s =
      rollout_.finish_s(ways, arrived.buckets, expected_s, arrivals_s, busy);
  for (double& at_s : finish_s) at_s += first_s;
  return nodes_.by_rank(finish_s);
}

}  // namespace patallreduce::selection
