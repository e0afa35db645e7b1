// The leader of strangers: whatever ranks report, it makes plans that fit what was reported, or
// none.
#include "monitor/leader.h"

#include <cmath>
#include <cstdlib>
#include <optional>
#include <variant>

#include "input.h"
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

void run(Input& input) {
  Planner planner(ranks, Link{1e-4, 25e6});
  Leader leader(ranks);
  leader.set_chooser({[&](const IterationForecast& forecast) -> std::optional<IterationPlan> {
                        return planner.plan(forecast);
                      },
                      [&](const std::vector<ScheduleKey>& keys, const IterationForecast& arrived) {
                        return planner.finish_s(keys, arrived);
                      }},
                     1 / 25e6);
  Records records(ranks);
  double now_s = 1;
  while (!input.empty()) {
    const std::uint8_t from = input.byte();
    now_s += from / 8 * 1e-3;
    const std::string bytes = input.bytes(input.byte());
    for (const auto& message : monitor::decode_monitor_messages(bytes, ranks)) {
      if (const auto* plan = std::get_if<Plan>(&message)) check(*plan);
      const auto* report = std::get_if<Report>(&message);
      if (!report) continue;
      if (const auto plan = leader.take(from % ranks, *report, now_s, records)) check(*plan);
    }
    while (const auto plan = leader.overdue(now_s, records)) check(*plan);
    (void)leader.next_overdue_s();
  }
}

}  // namespace

}  // namespace patallreduce::fuzz

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  patallreduce::fuzz::Input input(data, size);
  patallreduce::fuzz::run(input);
  return 0;
}
