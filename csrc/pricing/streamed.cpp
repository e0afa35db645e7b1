#include "pricing/streamed.h"

#include <algorithm>
#include <cmath>

#include "errors.h"
#include "pricing/streamed_run.h"
#include "schedule/print.h"

namespace patallreduce::pricing {

using schedule::Step;
using schedule::StepSource;
using schedule::text;

namespace {

// A rank's events in a row, so that the messages waiting at the next rank stay few.
constexpr int most_in_a_row = 512;

double burst_s(const Network& network) {
  return network.burst_bytes > 0 ? cost(network.models.front(), network.burst_bytes).transfer_s : 0;
}

}  // namespace

StreamedRun::StreamedRun(const StepSource& source, std::uint64_t message_bytes,
                         const Network& network, const std::vector<double>& arrivals_s,
                         bool records, bool by_rank)
    : source_(source),
      network_(network),
      arrivals_s_(arrivals_s),
      message_bytes_(message_bytes),
      count_(source.problem().ranks),
      segments_(source.problem().segments),
      blocks_(source.blocks()),
      segment_bytes_(static_cast<double>(message_bytes) / segments_),
      equal_segments_(message_bytes % static_cast<std::uint64_t>(segments_) == 0),
      alike_(network.models.size() == 1 && network.node_of.empty()),
      shared_(network.shared_ports),
      records_wanted_(records),
      by_rank_(by_rank),
      conflicts_(segments_),
      written_words_((static_cast<std::size_t>(segments_) + 63) / 64),
      written_(written_words_ * static_cast<std::size_t>(count_)),
      ranks_(count_),
      flows_(shared_ ? count_ : 0, burst_s(network)) {
  for (const Model& model : network.models) {
    reduce_bytes_per_s_.push_back(reduce_bytes_per_s(model));
  }
  if (network.uplink_bytes_per_s > 0 && !network.node_of.empty()) {
    uplinks_.resize(*std::max_element(network.node_of.begin(), network.node_of.end()) + 1);
  }
  account_.sends_s.assign(count_, 0);
  account_.receives_s.assign(count_, 0);
  account_.works_s.assign(count_, 0);
}

Account StreamedRun::run() {
  now_s_ = arrivals_s_.empty() ? 0 : *std::min_element(arrivals_s_.begin(), arrivals_s_.end());
  for (std::int32_t rank = 0; rank < count_; ++rank) {
    push(rank, arrival_s(rank), What::arrives, rank, 0);
  }
  for (std::int32_t rank = 0; rank < count_; ++rank) refill(rank);
  running_ = true;
  if (by_rank_) {
    run_rank_by_rank();
  } else {
    for (;;) {
      const double next_s = events_.empty() ? HUGE_VAL : events_.top().at_s;
      if (flows_.next_s() <= next_s && flows_.next_s() < HUGE_VAL) {
        end_flow();
      } else if (next_s < HUGE_VAL) {
        const Event event = events_.pop();
        now_s_ = event.at_s;
        happen(event);
      } else {
        break;
      }
    }
  }
  check_end();
  for (const RankState& state : ranks_) account_.outcome.finish_s.push_back(state.finish_s);
  if (records_wanted_) find_critical_path();
  return std::move(account_);
}

// A rank behind its one sender is run until the earliest time at which a message that the sender
// has not sent yet could be there.
void StreamedRun::run_rank_by_rank() {
  double flight_s = HUGE_VAL;
  const auto least_bytes =
      std::floor(static_cast<double>(message_bytes_) / static_cast<double>(segments_));
  for (const Model& model : network_.models) {
    flight_s = std::min(flight_s, least_flight_s(model, least_bytes));
  }
  flight_s *= 1 - 1e-6;  // sums of times are rounded
  const std::vector<std::int32_t> order = behind_senders();
  std::vector<double> known_s(count_, now_s_);  // all that happens on a rank earlier has happened
  for (;;) {
    bool moved = false;
    for (const std::int32_t rank : order) {
      RankState& state = ranks_[rank];
      const double until_s = state.sender < 0 ? HUGE_VAL : known_s[state.sender] + flight_s;
      double next_s = state.events.next_s();
      for (int n = 0; n < most_in_a_row && next_s < until_s; ++n) {
        const Event event = state.events.pop();
        now_s_ = event.at_s;
        happen(event);
        next_s = state.events.next_s();
        moved = true;
      }
      known_s[rank] = std::max(known_s[rank], std::min(next_s, until_s));
    }
    if (moved) continue;
    double next_s = HUGE_VAL;
    for (const RankState& state : ranks_) next_s = std::min(next_s, state.events.next_s());
    if (next_s == HUGE_VAL) return;
    for (double& at_s : known_s) at_s = std::max(at_s, next_s);
  }
}

// Every rank behind its sender, as far as they do not form a circle.
std::vector<std::int32_t> StreamedRun::behind_senders() const {
  std::vector<std::int32_t> order, path;
  std::vector<char> seen(count_, 0);
  for (std::int32_t first = 0; first < count_; ++first) {
    for (std::int32_t rank = first; rank >= 0 && !seen[rank]; rank = ranks_[rank].sender) {
      seen[rank] = 1;
      path.push_back(rank);
    }
    order.insert(order.end(), path.rbegin(), path.rend());
    path.clear();
  }
  return order;
}

void StreamedRun::happen(const Event& event) {
  switch (event.what()) {
    case What::arrives:
      if (network_.call_s > 0) return call(event.where);
      [[fallthrough]];
    case What::called:
      arrive(event.where);
      return refill(event.where);
    case What::sent:
      if (shared_) {
        const LiveStep& step = ranks_[event.where].window[event.which];
        const std::int32_t channel = step.channel, record = step.record;
        complete(event.where, event.which);
        leave_next(event.where, channel, record);
        return refill(event.where);
      }
      ranks_[event.where].sending = false;
      complete(event.where, event.which);
      send_next(event.where);
      return refill(event.where);
    case What::landed:
      return land(event.where, event.which);
    case What::received:
      deliver(event.where, event.which);
      return refill(channels_[event.where].to);
    case What::summed:
      complete(event.where, event.which);
      return refill(event.where);
    case What::may_leave:
      return line_up(event.where, event.which);
    case What::leaves:
      return start_flow(event.where, event.which);
  }
}

void StreamedRun::find_critical_path() {
  const RankState* last = &ranks_.front();
  for (const RankState& state : ranks_) {
    if (state.finish_s > last->finish_s) last = &state;
  }
  for (std::int32_t n = last->finish_record; n >= 0; n = records_[n].cause) {
    account_.critical_path.push_back({records_[n].rank, records_[n].step, records_[n].done_s});
  }
  std::reverse(account_.critical_path.begin(), account_.critical_path.end());
}

void StreamedRun::check_end() {
  for (const Channel& channel : channels_.all()) {
    if (channel.sends == channel.receives) continue;
    const bool more_sends = channel.sends > channel.receives;
    const std::int32_t ended = more_sends ? channel.to : channel.from;
    if (ranks_[ended].next_block < blocks_) continue;  // a deadlock
    throw ScheduleError(concat("rank ", channel.from, " sends ", channel.sends,
                               " messages to rank ", channel.to, ", which takes ",
                               channel.receives));
  }
  for (std::int32_t rank = 0; rank < count_; ++rank) {
    RankState& state = ranks_[rank];
    const std::int32_t n = state.window.begin();
    if (n == state.window.end()) continue;
    const LiveStep& step = state.window[n];
    throw ScheduleError(concat("deadlock: rank ", rank, " step ", n, " (",
                               text(Step{step.verb, step.peer, step.first, step.last, -1}),
                               ") never happens"));
  }
}

Account simulate_streamed(const StepSource& source, std::uint64_t message_bytes,
                          const Network& network, const std::vector<double>& arrivals_s,
                          const Accounting& accounting) {
  const int ranks = source.problem().ranks;
  check(network, ranks);
  check_arrivals(arrivals_s, ranks);
  const RunClock clock(arrivals_s);
  const auto run = [&](bool by_rank) {
    Account account = StreamedRun(source, message_bytes, network, clock.arrivals_s,
                                  accounting.critical_path, by_rank)
                          .run();
    for (double& finish_s : account.outcome.finish_s) finish_s += clock.zero_s;
    for (PathStep& step : account.critical_path) step.done_s += clock.zero_s;
    return account;
  };
  const auto segments = static_cast<std::uint64_t>(source.problem().segments);
  const bool all_fly = std::all_of(network.models.begin(), network.models.end(),
                                   [](const Model& model) { return least_flight_s(model, 0) > 0; });
  const bool independent =
      !network.shared_ports && (network.uplink_bytes_per_s == 0 || network.node_of.empty());
  if (independent && all_fly && !accounting.in_order_of_time &&
      (message_bytes == 0 || message_bytes >= segments)) {
    try {
      return run(true);
    } catch (const StreamedRun::SecondSender&) {  // then in the order of time
    }
  }
  return run(false);
}

}  // namespace patallreduce::pricing
