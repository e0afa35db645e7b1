// Who waits for whom, prepared once; pricing/ports.h lets the time pass.
#include "pricing/simulation.h"

#include <algorithm>

#include "errors.h"
#include "pricing/ports.h"
#include "pricing/prepared_steps.h"
#include "schedule/messages.h"
#include "schedule/needs.h"
#include "schedule/order.h"

namespace patallreduce::pricing {

using schedule::match;
using schedule::Needs;
using schedule::needs_of;
using schedule::Order;
using schedule::order_of;
using schedule::SegmentBytes;
using schedule::Step;

namespace {

bool is_permutation_of_ranks(const std::vector<std::int32_t>& places, std::size_t ranks) {
  std::vector<char> seen(ranks, 0);
  for (const std::int32_t rank : places)
    if (rank >= 0 && std::size_t(rank) < ranks) seen[std::size_t(rank)] = 1;
  return places.size() == ranks && std::count(seen.begin(), seen.end(), 1) == std::ptrdiff_t(ranks);
}

}  // namespace

Simulation::Simulation(const Schedule& schedule)
    : ranks_(schedule.problem.ranks), segments_(schedule.problem.segments) {
  const Messages messages = match(schedule);
  const std::size_t count = messages.partner.size();
  PATR_CHECK(count < (1u << 31), ScheduleError, "expected fewer than 2^31 steps to simulate, got ",
             count);
  tasks_.reserve(count);
  unlocks_begin_.reserve(count + 1);
  begin_.assign(messages.begin.begin(), messages.begin.end());
  for (int rank = 0; rank < ranks_; ++rank) add_rank(schedule.steps[rank], messages);
  unlocks_begin_.push_back(static_cast<std::int32_t>(unlocks_.size()));
}

void Simulation::add_rank(const Steps& steps, const Messages& messages) {
  const Order order = order_of(steps, segments_);
  const Needs needs = needs_of(steps, segments_);
  const auto first_task = static_cast<std::int32_t>(tasks_.size());
  const auto first_unlock = static_cast<std::int32_t>(unlocks_.size());
  for (std::size_t i = 0; i < steps.size(); ++i) {
    const Step& step = steps[i];
    const auto partner = static_cast<std::int32_t>(messages.partner[tasks_.size()]);
    tasks_.push_back({step.peer, step.first, step.last, partner, order.waits[i], -1, step.verb,
                      needs.arrival[i] != 0, false});
    unlocks_begin_.push_back(first_unlock + order.unlocks_begin[i]);
  }
  for (const std::int32_t later : order.unlocks) unlocks_.push_back(first_task + later);
}

Outcome Simulation::run(std::uint64_t message_bytes, const Link& link,
                        const std::vector<double>& arrivals_s, bool with_uses) const {
  check(link);
  check_arrivals(arrivals_s, ranks_);
  const RunClock clock(arrivals_s);
  Network network;
  network.models.push_back(link);
  Accounting accounting;
  accounting.uses = with_uses;
  PreparedSteps steps({{this, message_bytes, {}, {}}});
  Account account = Ports<PreparedSteps>(steps, {SegmentBytes(message_bytes, segments_)}, network,
                                         clock.arrivals_s, accounting)
                        .run_in_order_of_time();
  clock.put_back(account);
  return std::move(account.outcome);
}

std::vector<double> Simulation::finish_s(int units, const Pace& pace,
                                         const std::vector<double>& arrivals_s,
                                         double limit_s) const {
  check_arrivals(arrivals_s, ranks_);
  Network network;
  network.models.emplace_back();
  Accounting accounting;
  accounting.limit_s = limit_s;
  PacedSteps steps(*this, pace);
  const SegmentBytes bytes(static_cast<std::uint64_t>(units), segments_);
  return Ports<PacedSteps>(steps, {bytes}, network, arrivals_s, accounting)
      .run_in_order_of_time()
      .outcome.finish_s;
}

std::vector<std::vector<double>> run_together(const std::vector<InFlight>& collectives,
                                              const Link& link, PortsBusy& busy, Turn turn,
                                              bool shared_ports) {
  check(link);
  PATR_CHECK(!collectives.empty(), ScheduleError, "expected at least one collective, got none");
  const auto ranks = std::size_t(collectives.front().schedule->ranks_);
  const auto one_each = [&](const auto& values) {
    return values.empty() || values.size() == ranks;
  };
  PATR_CHECK(one_each(busy.sends_until_s) && one_each(busy.receives_until_s) &&
                 busy.sends_until_s.size() == busy.receives_until_s.size(),
             ScheduleError, "busy ports: expected ", ranks, " times each, got ",
             busy.sends_until_s.size(), " and ", busy.receives_until_s.size());
  std::vector<SegmentBytes> bytes;
  std::vector<double> arrivals_s;
  for (const InFlight& one : collectives) {
    const auto own_ranks = std::size_t(one.schedule->ranks_);
    PATR_CHECK(own_ranks == ranks, ScheduleError, "expected collectives of the same ", ranks,
               " ranks, got one of ", own_ranks);
    PATR_CHECK(one.ranks.empty() || is_permutation_of_ranks(one.ranks, ranks), ScheduleError,
               "expected each of ", ranks, " ranks at one place of the schedule");
    PATR_CHECK(one.pieces >= 1, ScheduleError, "expected at least 1 piece per message, got ",
               one.pieces);
    PATR_CHECK(one.arrivals_s.size() == ranks, ScheduleError, "expected ", ranks, " arrivals, got ",
               one.arrivals_s.size());
    check_arrivals(one.arrivals_s, one.schedule->ranks_);
    bytes.emplace_back(one.message_bytes, one.schedule->segments_);
    arrivals_s.insert(arrivals_s.end(), one.arrivals_s.begin(), one.arrivals_s.end());
  }
  Network network;
  network.models.push_back(link);
  network.shared_ports = shared_ports;
  Accounting accounting;
  accounting.turn = turn;
  Account account;
  if (shared_ports) {
    SharingSteps steps(collectives);
    account = Ports<SharingSteps>(steps, std::move(bytes), network, arrivals_s, accounting)
                  .run_in_order_of_time();
    busy = {};
  } else {
    PreparedSteps steps(collectives);
    account = Ports<PreparedSteps>(steps, std::move(bytes), network, arrivals_s, accounting, busy)
                  .run_in_order_of_time();
    busy = std::move(account.busy);
  }
  std::vector<std::vector<double>> finish_s;
  auto begin = account.outcome.finish_s.begin();
  for (const InFlight& one : collectives) {
    finish_s.emplace_back(begin, begin + one.schedule->ranks_);
    begin += one.schedule->ranks_;
  }
  return finish_s;
}

Outcome simulate(const Schedule& schedule, std::uint64_t message_bytes, const Link& link,
                 const std::vector<double>& arrivals_s) {
  return Simulation(schedule).run(message_bytes, link, arrivals_s);
}

}  // namespace patallreduce::pricing
