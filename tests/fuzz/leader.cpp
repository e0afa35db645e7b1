// The leader of strangers: whatever ranks report, it makes plans that fit what was reported, or
// none.
#include "monitor/leader.h"

#include <cmath>
#include <cstdlib>
#include <limits>
#include <optional>
#include <variant>
#include <vector>

#include "harness.h"
#include "monitor/records.h"
#include "monitor/reports.h"
#include "selection/planner.h"

namespace patallreduce::fuzz {

namespace {

using monitor::Leader;
using monitor::Records;
using monitor::Report;
using pricing::Link;
using schedule::Plan;
using selection::IterationForecast;
using selection::IterationPlan;
using selection::Planner;
using selection::ScheduleKey;

constexpr int ranks = 3;

void check(const Plan& plan) {
  for (const schedule::PlannedBucket& bucket : plan.buckets) {
    if (bucket.key.segments < 0) std::abort();
    for (const double arrival_s : bucket.key.arrivals_s)
      if (!std::isfinite(arrival_s)) std::abort();
  }
  if (monitor::decode_monitor_messages(monitor::encode(plan), ranks).size() != 1) std::abort();
}

double any_time_s(Input& input, double now_s) {
  const std::uint8_t byte = input.byte();
  switch (byte) {
    case 255:
      return std::numeric_limits<double>::quiet_NaN();
    case 254:
      return std::numeric_limits<double>::infinity();
    case 253:
      return -1e300;
    default:
      return now_s + (byte - 100) * 2e-3;
  }
}

std::vector<double> any_times_s(Input& input, double now_s, int count) {
  std::vector<double> times_s;
  for (; count > 0; --count) times_s.push_back(any_time_s(input, now_s));
  return times_s;
}

monitor::LinkUsed any_flows(Input& input, const monitor::IterationId& id, int count) {
  monitor::LinkUsed used{id, id.iteration - input.byte() / 64, {}};
  for (; count > 0; --count) {
    const std::uint8_t to = input.byte();
    used.flows.push_back({to % ranks, any_time_s(input, to * 1e6), any_time_s(input, 1)});
  }
  return used;
}

// As a rank would tell it, mostly: the fuzzer finds few of these among plain bytes.
Report told(Input& input, double now_s) {
  const std::uint8_t kind = input.byte();
  const monitor::IterationId id{kind / 128, input.byte() / 4};
  const int buckets = kind / 8 % 4;
  switch (kind % 4) {
    case 0:
      return monitor::Started{id, any_time_s(input, now_s), any_times_s(input, now_s, buckets)};
    case 1:
      return monitor::EdgeReached{id, input.byte() / 200.0, any_time_s(input, now_s)};
    case 2:
      if (kind / 4 % 2) return any_flows(input, id, buckets);
      return monitor::Asked{id, any_time_s(input, now_s)};
    default:
      break;
  }
  monitor::Arrived arrived{id, any_times_s(input, now_s, buckets), {}};
  for (int bucket = 0; bucket < buckets + kind / 32 % 2; ++bucket)
    arrived.sizes.push_back({1ull << input.byte() % 40, 4, "ring", 0});
  return arrived;
}

}  // namespace

void run(Input& input) {
  Planner planner(ranks, Link{1e-4, 25e6});
  Leader leader(ranks);
  leader.set_chooser(
      {[&](const IterationForecast& forecast, bool at_once) -> std::optional<IterationPlan> {
         return at_once ? planner.plan_at_once(forecast) : planner.plan(forecast);
       },
       [&](const std::vector<ScheduleKey>& keys, const IterationForecast& arrived) {
         return planner.finish_s(keys, arrived);
       },
       planner.ports(), [&](const std::vector<double>& ports) { planner.set_ports(ports); },
       planner.latency_s(), [&](bool confirms) { return planner.catch_up(confirms); }},
      1 / 25e6);
  Records records(ranks);
  double now_s = 1;
  while (!input.empty()) {
    const std::uint8_t from = input.byte();
    now_s += from / 8 * 1e-3;
    const auto take = [&](const Report& report) {
      if (const auto plan = leader.take(from % ranks, report, now_s, records)) check(*plan);
    };
    if (from % 8 < 6) {
      take(told(input, now_s));
    } else {
      for (const auto& message :
           monitor::decode_monitor_messages(input.bytes(input.byte()), ranks)) {
        if (const auto* plan = std::get_if<Plan>(&message)) check(*plan);
        if (const auto* report = std::get_if<Report>(&message)) take(*report);
      }
    }
    while (const auto plan = leader.overdue(now_s, records)) check(*plan);
    if (from % 2) leader.catch_up(from % 4 == 1);
    (void)leader.next_overdue_s();
  }
}

}  // namespace patallreduce::fuzz
