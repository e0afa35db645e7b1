#include "selection/planner.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "clock.h"
#include "errors.h"

namespace patallreduce::selection {

namespace {

// What was planned is remembered by these.
constexpr double quanta_per_scale = 64;
// Of the transfer time of an iteration's messages.
constexpr double usual_slack = 1.0 / 16;

}  // namespace

Planner::Planner(int ranks, Link link, double margin, std::vector<std::int32_t> node_of,
                 double most_wait, TunedRules rules)
    : nodes_(ranks, std::move(node_of)),
      ranks_(nodes_.count()),
      margin_(margin),
      most_wait_(most_wait),
      link_(std::move(link)),
      selector_(ranks_, link_, {}, nodes_.shared(), std::move(rules)),
      search_(std::in_place, nodes_, link_, margin_, selector_) {
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
  ++network_;
  search_.emplace(nodes_, link_, margin_, selector_);
  choices_.forget();
  left_.reset();
}

IterationPlan Planner::plan(const IterationForecast& told) { return *plan(told, false); }

std::optional<IterationPlan> Planner::plan_at_once(const IterationForecast& told) {
  return plan(told, true);
}

// Whoever plans meanwhile does not wait for it.
bool Planner::catch_up(bool confirms) {
  const std::lock_guard catching_up(catching_up_);
  Left left;
  int network;
  {
    const std::lock_guard lock(mutex_);
    if (!left_ || (left_->usual && !confirms)) return false;
    left = *std::exchange(left_, std::nullopt);
    network = network_;
    if (!afterwards_ || network_of_afterwards_ != network)
      afterwards_.emplace(nodes_, link_, margin_, selector_);
    network_of_afterwards_ = network;
  }
  const WorkedOut found = work_out(*afterwards_, left.forecast);
  const std::lock_guard lock(mutex_);
  if (network == network_) note(std::move(left), found);
  return true;
}

Planner::WorkedOut Planner::work_out(Search& search, const IterationForecast& forecast) {
  const double begun_s = thread_s();
  const Chosen chosen = search.choose(forecast);
  return {chosen, thread_s() - begun_s};
}

const Chosen* Planner::note(Left left, const WorkedOut& found) {
  wait_ = found.took_s / found.chosen.plain_pace_s;
  return choices_.note(std::move(left.in_quanta), left.forecast, found.chosen);
}

std::optional<IterationPlan> Planner::plan(const IterationForecast& told, bool at_once) {
  check(told, nodes_.ranks());
  const std::lock_guard lock(mutex_);
  const double scale = search_->scale_s(told.buckets);
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
  if (!chosen) chosen = note({std::move(in_quanta), forecast}, work_out(*search_, forecast));
  IterationPlan plan{{}, chosen->pace_s, chosen->plain_pace_s};
  if (chosen->algorithm) plan.keys = search_->keys(*chosen->algorithm, forecast);
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
  return search_->finish_s(keys, arrived);
}

}  // namespace patallreduce::selection
