#include "selection/planner.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "clock.h"
#include "errors.h"
#include "selection/bounds.h"

namespace patallreduce::selection {

using algorithms::Pricing;
using algorithms::Uses;

namespace {

// What was planned is remembered by these; a plan's order tells ranks apart by finer ones.
constexpr double quanta_per_scale = 64, orders_per_scale = 1024;
constexpr double most_orders = 1e9;
// Of the transfer time of an iteration's messages.
constexpr double usual_slack = 1.0 / 16;
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

}  // namespace

Planner::Planner(int ranks, Link link, double margin, std::vector<std::int32_t> node_of,
                 double most_wait, TunedRules rules)
    : nodes_(ranks, std::move(node_of)),
      ranks_(nodes_.count()),
      margin_(margin),
      most_wait_(most_wait),
      link_(std::move(link)),
      selector_(ranks_, link_, {}, nodes_.shared(), std::move(rules)),
      schedules_(ranks_, link_),
      rollout_(ranks_, link_) {
  check_ports(link_, ranks_);
}

double Planner::latency_s() const {
  const std::lock_guard lock(mutex_);
  return link_.latency_s;
}

std::vector<double> Planner::ports() const {
  if (nodes_.shared()) return {};
  const std::lock_guard lock(mutex_);
  std::vector<double> bytes_per_s(std::size_t(ranks_), link_.bytes_per_s);
  if (link_.ports.empty()) return bytes_per_s;
  const double narrowest = *std::min_element(link_.ports.begin(), link_.ports.end());
  for (std::size_t rank = 0; rank < bytes_per_s.size(); ++rank)
    bytes_per_s[rank] *= link_.ports[rank] / narrowest;
  return bytes_per_s;
}

void Planner::set_ports(const std::vector<double>& bytes_per_s) {
  const auto sensible = [](double of_rank) { return std::isfinite(of_rank) && of_rank > 0; };
  PATR_CHECK(!nodes_.shared() && bytes_per_s.size() == std::size_t(ranks_) &&
                 std::all_of(bytes_per_s.begin(), bytes_per_s.end(), sensible),
             ScheduleError, "set_ports: expected a bandwidth > 0 for each of ", ranks_, " ranks");
  const double narrowest = *std::min_element(bytes_per_s.begin(), bytes_per_s.end());
  const std::lock_guard lock(mutex_);
  const double slower = link_.bytes_per_s / narrowest;
  link_.bytes_per_s = narrowest;
  for (auto& [bytes, seconds] : link_.transfers_s) seconds *= slower;
  link_.ports = pricing::port_widths(bytes_per_s);
  schedules_ = Schedules(ranks_, link_);
  rollout_ = Rollout(ranks_, link_);
  choices_.forget();
  left_.reset();
}

IterationPlan Planner::plan(const IterationForecast& told) { return *plan(told, false); }

std::optional<IterationPlan> Planner::plan_at_once(const IterationForecast& told) {
  return plan(told, true);
}

bool Planner::catch_up(bool confirms) {
  const std::lock_guard lock(mutex_);
  if (!left_ || (left_->usual && !confirms)) return false;
  work_out(*std::exchange(left_, std::nullopt));
  return true;
}

const Chosen* Planner::work_out(Left left) {
  const double begun_s = now_s();
  const Chosen chosen = choose(left.forecast);
  wait_ = (now_s() - begun_s) / chosen.plain_pace_s;
  return choices_.note(std::move(left.in_quanta), left.forecast, chosen);
}

std::optional<IterationPlan> Planner::plan(const IterationForecast& told, bool at_once) {
  check(told, nodes_.ranks());
  const std::lock_guard lock(mutex_);
  const double scale = scale_s(told.buckets);
  if (told.buckets.empty() || ranks_ == 1 || scale == 0) return IterationPlan{};
  IterationForecast forecast = nodes_.forecast(told);
  from_zero(forecast.arrivals_s);
  std::vector<double> in_quanta = selection::in_quanta(forecast, scale / quanta_per_scale);
  const Chosen* chosen = choices_.known(in_quanta);
  if (!chosen && at_once) {
    const bool may_wait = wait_ <= most_wait_;
    chosen = choices_.usual(forecast, usual_slack * scale, true);
    const bool usual = chosen;
    if (!chosen && !may_wait) chosen = choices_.usual(forecast, usual_slack * scale, false);
    if (chosen || !may_wait) left_ = {std::move(in_quanta), forecast, usual};
    if (!chosen && !may_wait) return std::nullopt;
  }
  if (!chosen) chosen = work_out({std::move(in_quanta), forecast, false});
  IterationPlan plan{{}, chosen->pace_s, chosen->plain_pace_s};
  if (chosen->algorithm) plan.keys = keys(*chosen->algorithm, forecast, scale / orders_per_scale);
  for (std::size_t b = 0; b < plan.keys.size(); ++b)
    plan.keys[b] =
        nodes_.of_ranks(std::move(plan.keys[b]), told.buckets[b].elements, told.arrivals_s.back());
  return plan;
}

std::vector<double> Planner::finish_s(const std::vector<ScheduleKey>& keys,
                                      const IterationForecast& arrived) {
  check(arrived, nodes_.ranks());
  const std::size_t buckets = arrived.buckets.size();
  if (buckets == 0) return {};
  PATR_CHECK(keys.empty() || keys.size() == buckets, ScheduleError, "finish_s: expected ", buckets,
             " keys, got ", keys.size());
  const std::lock_guard lock(mutex_);
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

// The messages once through a port, and the latencies of a tree.
double Planner::scale_s(const std::vector<Bucket>& buckets) const {
  double transfer_s = 0;
  for (const Bucket& bucket : buckets)
    transfer_s += link_.transfer_s(static_cast<double>(bucket.bytes));
  return transfer_s + 2 * link_.latency_s * (1 + std::log2(ranks_));
}

// What calls take by themselves; what nobody prices, by a rule, is taken for the usual one.
std::vector<Way> Planner::plain(const std::vector<Bucket>& buckets) {
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

std::vector<Way> Planner::ways(const Algorithm& algorithm,
                               const std::vector<Bucket>& buckets) const {
  std::vector<Way> ways;
  for (const Bucket& bucket : buckets)
    ways.push_back({&algorithm, segments_for(algorithm, ranks_, bucket, link_)});
  return ways;
}

// Means under the forecast and samples around it. Only the best under the forecast are sampled.
void Planner::sample(std::vector<Policy>& policies, const IterationForecast& forecast, int runs,
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

Chosen Planner::choose(const IterationForecast& every) {
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

std::vector<ScheduleKey> Planner::keys(const Algorithm& algorithm,
                                       const IterationForecast& forecast, double quantum_s) const {
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

}  // namespace patallreduce::selection
