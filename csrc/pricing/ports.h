// The one event loop: what every rank's port, processor and arrival let happen, as time passes.
//
// First by time, then by what it is, then in the order in which it was found, so equal input gives
// equal output. A rank's ready sends leave in the order in which they became ready, ties in program
// order; the first of them takes its receiver's port when that is next free, in the order of
// asking. Sums, and the overheads of LogGP and PLogP, take turns in the processor likewise.
//
// `Steps` is where steps come from: stored and prepared (pricing/simulation.h), or generated while
// the clock runs (pricing/generated.h). How messages leave is in pricing/departures.h.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include "errors.h"
#include "pricing/account.h"
#include "pricing/events.h"
#include "pricing/flows.h"
#include "pricing/network.h"
#include "schedule/offsets.h"
#include "schedule/print.h"

namespace patallreduce::pricing {

using schedule::SegmentBytes;
using schedule::Step;
using schedule::Verb;

// As the steps number them: a rank and its step; a message on its way.
struct StepId {
  std::int32_t rank, n;
};
struct MessageId {
  std::int32_t where, which;
};

[[noreturn]] inline void throw_deadlock(std::int32_t rank, std::int32_t n, const Step& step) {
  throw ScheduleError(
      concat("deadlock: rank ", rank, " step ", n, " (", schedule::text(step), ") never happens"));
}

template <typename Steps>
class Ports {
 public:
  // arrivals_s: from 0 on; empty: all 0.
  Ports(Steps& steps, std::uint64_t message_bytes, const Network& network,
        const std::vector<double>& arrivals_s, const Accounting& accounting);

  Account run_in_order_of_time();
  // Where no rank receives from two others; no message is there sooner than flight_s > 0 after it
  // has begun to leave.
  Account run_rank_by_rank(double flight_s);

 private:
  struct ReadySend {
    double since_s;
    std::int32_t step;
  };

  struct Line {  // of messages that take turns
    bool sending = false;
    std::vector<ReadySend> ready;  // from `next` on
    std::size_t next = 0;
    std::int32_t record = -1;  // of the last one
  };

  struct Rank {
    double receives_until_s = -HUGE_VAL, works_until_s = -HUGE_VAL, finish_s = -HUGE_VAL;
    bool arrived = false;
    Line line;
    std::vector<std::int32_t> before_arrival;  // ready, but for the arrival
    // Records of what last used the port and the processor, and made the result.
    std::int32_t receive_record = -1, work_record = -1, finish_record = -1;
    std::int32_t done_record = -1;  // of the last step that was done
  };

  struct Record {
    std::int32_t rank, step, cause;
    double done_s;
  };

  struct Uplink {
    double out_until_s = -HUGE_VAL, in_until_s = -HUGE_VAL;
    std::int32_t out_record = -1, in_record = -1;
  };

  void begin();
  Account end();
  void find_critical_path();
  void happen(const Event& event);

  void refill(std::int32_t rank) {
    while (const std::vector<std::int32_t>* starters =
               steps_.next_starters(rank, ranks_[rank].arrived, ranks_[rank].done_record)) {
      for (const std::int32_t n : *starters) become_ready(rank, n);
    }
  }

  void arrive(std::int32_t rank);
  void become_ready(std::int32_t rank, std::int32_t n);
  void land(std::int32_t where, std::int32_t which);
  void deliver(std::int32_t where, std::int32_t which);
  void take(std::int32_t rank, std::int32_t n);
  void complete(std::int32_t rank, std::int32_t n);

  // pricing/departures.h
  void line_up(std::int32_t rank, std::int32_t n);
  Line& line_to_peer(std::int32_t rank, std::int32_t n);
  void send_next(std::int32_t rank, Line& line);
  void send(std::int32_t rank, std::int32_t n);
  double through_uplinks(std::int32_t from, std::int32_t to, double start_s, double bytes,
                         std::int32_t& cause);
  void start_flow(std::int32_t rank, std::int32_t n);
  void end_flow();
  void sent(std::int32_t rank, std::int32_t n);

  // Of what only networks and accounts have, a clock for one link has nothing to ask.
  bool shares_ports() const { return Steps::on_networks && network_.shared_ports; }
  bool has_uplinks() const { return Steps::on_networks && !uplinks_.empty(); }
  bool has_overheads() const { return Steps::on_networks && overheads_; }
  bool has_calls() const { return Steps::on_networks && network_.call_s > 0; }
  bool has_rendezvous() const { return Steps::on_networks && !network_.posted_before_arrival; }
  bool records() const { return Steps::on_networks && accounting_.critical_path; }

  double arrival_s(std::int32_t rank) const { return arrivals_s_.empty() ? 0 : arrivals_s_[rank]; }

  void push(std::int32_t rank, double at_s, What what, std::int32_t where, std::int32_t which) {
    const std::uint64_t order = static_cast<std::uint64_t>(what) << what_shift | found_++;
    if (Steps::on_networks && !by_rank_.empty()) {
      by_rank_[rank].push(what, at_s, order, where, which);
    } else {
      events_.push(at_s, order, where, which);
    }
  }

  // The port is free at sent_s, the message there at landed_s.
  void push_departure(std::int32_t rank, std::int32_t n, double sent_s, double landed_s) {
    const MessageId message = steps_.depart(rank, n);
    push(rank, sent_s, What::sent, rank, n);
    push(steps_.at(rank, n).peer, landed_s, What::landed, message.where, message.which);
  }

  Uplink& uplink_of(std::int32_t rank) { return uplinks_[network_.node_of[rank]]; }

  // The processor's turn: until when it works. `cause` becomes what it had to wait for.
  double work(std::int32_t rank, double seconds, std::int32_t& cause) {
    Rank& state = ranks_[rank];
    if (state.works_until_s > now_s_) cause = state.work_record;
    state.works_until_s = std::max(now_s_, state.works_until_s) + seconds;
    state.work_record = cause;
    if (Steps::on_networks) account_.works_s[rank] += seconds;
    return state.works_until_s;
  }

  const Cost& cost_of(std::int32_t from, std::int32_t to, double bytes) {
    if ((Steps::on_networks && !alike_) || bytes != cost_bytes_) {
      cost_ = cost(network_, from, to, bytes);
      cost_bytes_ = bytes;
    }
    return cost_;
  }

  std::int32_t recorded(std::int32_t rank, std::int32_t step, std::int32_t cause, double done_s) {
    if (!records()) return -1;
    PATR_CHECK(records_.size() < (1u << 31) - 1, ScheduleError,
               "critical path: expected fewer than 2^31 steps");
    records_.push_back({rank, step, cause, done_s});
    return static_cast<std::int32_t>(records_.size()) - 1;
  }

  Steps& steps_;
  const Network& network_;
  const std::vector<double>& arrivals_s_;
  const Accounting accounting_;
  const SegmentBytes bytes_;
  const bool alike_;      // one cost for all pairs of ranks
  const bool overheads_;  // processors work for messages, too
  double now_s_ = 0;
  std::uint64_t found_ = 0;
  std::vector<Rank> ranks_;
  EventHeap events_;
  std::vector<RankEvents> by_rank_;  // instead, where ranks are run one by one
  Flows flows_;
  std::vector<Line> to_peers_;              // by channel, where ports are shared
  std::vector<Uplink> uplinks_;             // per node
  std::vector<double> reduce_bytes_per_s_;  // by model
  double cost_bytes_ = -1;
  Cost cost_{};
  std::vector<Record> records_;
  Account account_;
};

template <typename Steps>
Ports<Steps>::Ports(Steps& steps, std::uint64_t message_bytes, const Network& network,
                    const std::vector<double>& arrivals_s, const Accounting& accounting)
    : steps_(steps),
      network_(network),
      arrivals_s_(arrivals_s),
      accounting_(accounting),
      bytes_(message_bytes, steps.segments()),
      alike_(network.models.size() == 1 && network.node_of.empty()),
      overheads_(
          !std::all_of(network.models.begin(), network.models.end(),
                       [](const Model& model) { return std::holds_alternative<Link>(model); })),
      ranks_(steps.ranks()),
      flows_(network.shared_ports ? steps.ranks() : 0, burst_s(network)) {
  for (const Model& model : network.models)
    reduce_bytes_per_s_.push_back(reduce_bytes_per_s(model));
  if (network.uplink_bytes_per_s > 0 && !network.node_of.empty())
    uplinks_.resize(*std::max_element(network.node_of.begin(), network.node_of.end()) + 1);
  account_.sends_s.assign(ranks_.size(), 0);
  account_.receives_s.assign(ranks_.size(), 0);
  account_.works_s.assign(ranks_.size(), 0);
}

template <typename Steps>
void Ports<Steps>::begin() {
  const auto ranks = static_cast<std::int32_t>(ranks_.size());
  // Before any arrival nothing can be sent that the rank did not receive.
  now_s_ = arrivals_s_.empty() ? 0 : *std::min_element(arrivals_s_.begin(), arrivals_s_.end());
  for (std::int32_t rank = 0; rank < ranks; ++rank)
    push(rank, arrival_s(rank), What::arrives, rank, 0);
  for (std::int32_t rank = 0; rank < ranks; ++rank) refill(rank);
}

template <typename Steps>
Account Ports<Steps>::run_in_order_of_time() {
  begin();
  while (now_s_ <= accounting_.limit_s) {
    const double next_s = events_.empty() ? HUGE_VAL : events_.top().at_s;
    if (shares_ports() && flows_.next_s() <= next_s && flows_.next_s() < HUGE_VAL) {
      end_flow();
    } else if (next_s < HUGE_VAL) {
      const Event event = events_.pop();
      now_s_ = event.at_s;
      happen(event);
    } else {
      return end();
    }
  }
  account_.outcome.finish_s.assign(ranks_.size(), HUGE_VAL);
  return std::move(account_);
}

// A rank behind its one sender is run until the earliest time at which a message that the sender
// has not sent yet could be there.
template <typename Steps>
Account Ports<Steps>::run_rank_by_rank(double flight_s) {
  // A rank's events in a row, so that the messages waiting at the next rank stay few.
  constexpr int most_in_a_row = 512;
  by_rank_.resize(ranks_.size());
  begin();
  const std::vector<std::int32_t> order = steps_.behind_senders();
  std::vector<double> known_s(ranks_.size(), now_s_);  // all that happens there earlier has
  for (;;) {
    bool moved = false;
    for (const std::int32_t rank : order) {
      const std::int32_t sender = steps_.sender(rank);
      const double until_s = sender < 0 ? HUGE_VAL : known_s[sender] + flight_s;
      RankEvents& events = by_rank_[rank];
      double next_s = events.next_s();
      for (int n = 0; n < most_in_a_row && next_s < until_s; ++n) {
        const Event event = events.pop();
        now_s_ = event.at_s;
        happen(event);
        next_s = events.next_s();
        moved = true;
      }
      known_s[rank] = std::max(known_s[rank], std::min(next_s, until_s));
    }
    if (moved) continue;
    double next_s = HUGE_VAL;
    for (const RankEvents& events : by_rank_) next_s = std::min(next_s, events.next_s());
    if (next_s == HUGE_VAL) return end();
    for (double& at_s : known_s) at_s = std::max(at_s, next_s);
  }
}

template <typename Steps>
Account Ports<Steps>::end() {
  steps_.check_end();
  account_.outcome.finish_s.reserve(ranks_.size());
  for (const Rank& rank : ranks_) account_.outcome.finish_s.push_back(rank.finish_s);
  if (records()) find_critical_path();
  return std::move(account_);
}

template <typename Steps>
void Ports<Steps>::find_critical_path() {
  const auto last =
      std::max_element(ranks_.begin(), ranks_.end(),
                       [](const Rank& a, const Rank& b) { return a.finish_s < b.finish_s; });
  for (std::int32_t n = last->finish_record; n >= 0; n = records_[n].cause)
    account_.critical_path.push_back({records_[n].rank, records_[n].step, records_[n].done_s});
  std::reverse(account_.critical_path.begin(), account_.critical_path.end());
}

template <typename Steps>
void Ports<Steps>::happen(const Event& event) {
  switch (event.what()) {
    case What::arrives:
      if (has_calls()) {
        std::int32_t cause = recorded(event.where, -1, -1, now_s_);
        const double until_s = work(event.where, network_.call_s, cause);
        return push(event.where, until_s, What::called, event.where, 0);
      }
      [[fallthrough]];
    case What::called:
      arrive(event.where);
      return refill(event.where);
    case What::sent:
      sent(event.where, event.which);
      return refill(event.where);
    case What::landed:
      return land(event.where, event.which);
    case What::received:
      return deliver(event.where, event.which);
    case What::summed:
      complete(event.where, event.which);
      return refill(event.where);
    case What::may_leave:
      return line_up(event.where, event.which);
    case What::leaves:
      return start_flow(event.where, event.which);
  }
}

template <typename Steps>
void Ports<Steps>::arrive(std::int32_t rank) {
  Rank& state = ranks_[rank];
  state.arrived = true;
  state.finish_s = std::max(state.finish_s, now_s_);
  const std::int32_t record = recorded(rank, -1, -1, now_s_);
  if (state.finish_s == now_s_) state.finish_record = record;
  state.done_record = record;
  std::vector<std::int32_t> waiting;
  waiting.swap(state.before_arrival);
  std::sort(waiting.begin(), waiting.end());  // all are ready now: program order
  for (const std::int32_t n : waiting) {
    steps_.at(rank, n).record = record;
    become_ready(rank, n);
  }
}

// Its earlier steps are done, at now_s_.
template <typename Steps>
void Ports<Steps>::become_ready(std::int32_t rank, std::int32_t n) {
  const auto& step = steps_.at(rank, n);
  if (step.verb != Verb::send) {
    if (step.landed) take(rank, n);
  } else if (step.needs_arrival && !ranks_[rank].arrived) {
    ranks_[rank].before_arrival.push_back(n);
  } else if (has_rendezvous() && arrival_s(step.peer) > now_s_) {
    push(rank, arrival_s(step.peer), What::may_leave, rank, n);
  } else {
    line_up(rank, n);
  }
}

template <typename Steps>
void Ports<Steps>::land(std::int32_t where, std::int32_t which) {
  if (has_overheads()) {
    const auto message = steps_.landing(where, which);
    if (!bytes_.leaves_out(message)) {
      const double receive_s = cost_of(message.from, message.to, bytes_.of(message)).receive_s;
      if (receive_s > 0) {
        const double until_s = work(message.to, receive_s, message.record);
        return push(message.to, until_s, What::received, where, which);
      }
    }
  }
  deliver(where, which);
}

template <typename Steps>
void Ports<Steps>::deliver(std::int32_t where, std::int32_t which) {
  const auto [rank, n] = steps_.deliver(where, which);
  if (n >= 0 && steps_.at(rank, n).waits == 0) take(rank, n);
  refill(rank);
}

// A message is here and its receive's turn has come.
template <typename Steps>
void Ports<Steps>::take(std::int32_t rank, std::int32_t n) {
  auto& step = steps_.at(rank, n);
  if (step.needs_arrival && !ranks_[rank].arrived) {
    ranks_[rank].before_arrival.push_back(n);
    return;
  }
  steps_.lines_up(rank, n);
  if (step.verb == Verb::recv) {
    step.record = recorded(rank, n, step.record, now_s_);
    complete(rank, n);
  } else {
    const bool alike = !Steps::on_networks || network_.model_of.empty();
    const double rate = reduce_bytes_per_s_[alike ? 0 : network_.model_of[rank]];
    const double until_s = work(rank, bytes_.of(step) / rate, step.record);
    step.record = ranks_[rank].work_record = recorded(rank, n, step.record, until_s);
    push(rank, until_s, What::summed, rank, n);
  }
}

// A rank has its result with the last step that needs its arrival (schedule/needs.h): the last
// write of every segment; any earlier one is done before that. A segment that is never written is
// the caller's again once it is sent.
template <typename Steps>
void Ports<Steps>::complete(std::int32_t rank, std::int32_t n) {
  Rank& state = ranks_[rank];
  const auto& step = steps_.at(rank, n);
  const std::int32_t record = state.done_record = step.record;
  if (step.needs_arrival && now_s_ >= state.finish_s) {
    state.finish_s = now_s_;
    state.finish_record = record;
  }
  steps_.finish(rank, n, [&](std::int32_t unlocked) {
    steps_.at(rank, unlocked).record = record;
    become_ready(rank, unlocked);
  });
}

}  // namespace patallreduce::pricing

#include "pricing/departures.h"
