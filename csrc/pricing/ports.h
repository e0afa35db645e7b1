// The one event loop: what every rank's port, processor and arrival let happen, as time passes.
//
// Several collectives may be in flight at once. Each has ranks of its own, numbered on from those
// of the collective before, with arrivals and results of their own; ports and processors are
// shared.
//
// First by time, then by what it is, then in the order in which it was found, so equal input gives
// equal output. A rank's ready sends leave in the order in which they became ready, ties in program
// order; the first of them takes its receiver's port when that is next free, in the order of
// asking. Sums, and the overheads of LogGP and PLogP, take turns in the processor likewise.
//
// `Steps` is where steps come from: stored and prepared (pricing/simulation.h), or generated while
// the clock runs (pricing/generated.h). Three files more are parts of this one: order_of_time.h has
// which event is next, progress.h what becomes of a step, departures.h how its message leaves.
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
  // arrivals_s: from 0 on; empty: all 0. `bytes`: by collective. `busy`: what came before, by port;
  // empty: nothing.
  Ports(Steps& steps, std::vector<SegmentBytes> bytes, const Network& network,
        const std::vector<double>& arrivals_s, const Accounting& accounting,
        const PortsBusy& busy = {});

  Account run_in_order_of_time();
  // Where no rank receives from two others; no message is there sooner than flight_s > 0 after it
  // has begun to leave.
  Account run_rank_by_rank(double flight_s);

 private:
  struct ReadySend {
    double since_s;
    std::int32_t rank, step;
  };

  struct Line {  // of messages that take turns
    bool sending = false;
    std::vector<ReadySend> ready;  // from `next` on
    std::size_t next = 0;
    std::int32_t record = -1;  // of the last one
  };

  struct Port {  // and the processor behind it
    double sends_until_s = -HUGE_VAL, receives_until_s = -HUGE_VAL, works_until_s = -HUGE_VAL;
    double sent_steadily_s = -HUGE_VAL, received_steadily_s = -HUGE_VAL;  // as if without a burst
    // Since when another partner than the last one can be sent to, received from; which was it.
    double sends_elsewhere_s = -HUGE_VAL, receives_elsewhere_s = -HUGE_VAL;
    std::int32_t sent_to = -1, received_from = -1;
    Line line;
    std::int32_t receive_record = -1, work_record = -1;  // of what last used them
  };

  struct Rank {
    double finish_s = -HUGE_VAL;
    bool arrived = false;
    std::vector<std::int32_t> before_arrival;           // ready, but for the arrival
    std::int32_t finish_record = -1, done_record = -1;  // of what made the result, of the last step
  };

  struct Record {
    std::int32_t rank, step, cause;
    double done_s;
  };

  struct Processor {  // of those that all ranks share
    double works_until_s = -HUGE_VAL;
    std::int32_t record = -1;
  };

  struct Uplink {
    double out_until_s = -HUGE_VAL, in_until_s = -HUGE_VAL;
    std::int32_t out_record = -1, in_record = -1;
  };

  // pricing/order_of_time.h
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

  // pricing/progress.h
  void arrive(std::int32_t rank);
  void become_ready(std::int32_t rank, std::int32_t n);
  void land(std::int32_t where, std::int32_t which);
  void deliver(std::int32_t where, std::int32_t which);
  void take(std::int32_t rank, std::int32_t n);
  void complete(std::int32_t rank, std::int32_t n);

  // pricing/departures.h
  void line_up(std::int32_t rank, std::int32_t n);
  Line& line_to_peer(std::int32_t rank, std::int32_t n);
  void bring_forward(Line& line);
  void send_next(Line& line);
  void begin_to_send(std::int32_t rank, Line& line, std::int32_t n, double since_s);
  void send(std::int32_t rank, std::int32_t n);
  double change_partners(std::int32_t from, std::int32_t to, double start_s, std::int32_t& cause);
  double take_uplinks(std::int32_t from, std::int32_t to, double start_s, double bytes,
                      std::int32_t& cause);
  void start_flow(std::int32_t rank, std::int32_t n);
  void end_flow();
  void sent(std::int32_t rank, std::int32_t n);

  // Of what only networks and accounts have, a clock for one link has nothing to ask.
  bool shares_ports() const {
    return Steps::on_networks && network_.shared_ports && !shares_processors();
  }
  bool shares_processors() const { return !Steps::paced && !processors_.empty(); }
  bool through_uplinks(std::int32_t from, std::int32_t to) const {
    return Steps::on_networks && !uplinks_.empty() && !network_.same_node(from, to);
  }
  bool has_overheads() const { return (Steps::on_networks && overheads_) || shares_processors(); }
  bool has_calls() const { return Steps::on_networks && network_.call_s > 0; }
  bool has_rendezvous() const { return Steps::on_networks && !network_.posted_before_arrival; }
  bool records() const { return Steps::on_networks && accounting_.critical_path; }

  Port& port_of(std::int32_t rank) { return ports_[steps_.port(rank)]; }
  const SegmentBytes& bytes_of(std::int32_t rank) const { return bytes_[steps_.collective(rank)]; }
  double arrival_s(std::int32_t rank) const { return arrivals_s_.empty() ? 0 : arrivals_s_[rank]; }

  void push(std::int32_t rank, double at_s, What what, std::int32_t where, std::int32_t which) {
    const auto kind = static_cast<std::uint64_t>(what);
    const std::uint64_t order =
        Steps::paced ? found_ << as_found_shift | kind : kind << what_shift | found_;
    ++found_;
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
    Port& port = port_of(rank);
    if (port.works_until_s > now_s_) cause = port.work_record;
    double begin_s = std::max(now_s_, port.works_until_s);
    if (shares_processors()) {
      Processor& processor = processor_at(begin_s);
      if (processor.works_until_s > begin_s) {
        begin_s = processor.works_until_s;
        cause = processor.record;
      }
      processor = {begin_s + seconds, cause};
    }
    port.works_until_s = begin_s + seconds;
    port.work_record = cause;
    if (Steps::on_networks) account_.works_s[rank] += seconds;
    return port.works_until_s;
  }

  // Of those that are free then, the last one that worked; else the next one that is free.
  Processor& processor_at(double begin_s) {
    const auto sooner = [&](const Processor& a, const Processor& b) {
      const double a_s = a.works_until_s, b_s = b.works_until_s;
      return a_s <= begin_s && b_s <= begin_s ? a_s > b_s : a_s < b_s;
    };
    return *std::min_element(processors_.begin(), processors_.end(), sooner);
  }

  const Cost& cost_of(std::int32_t from, std::int32_t to, double bytes) {
    if constexpr (Steps::paced) return cost_ = steps_.cost(bytes);
    if ((Steps::on_networks && !alike_) || bytes != cost_bytes_) {
      cost_ = cost(network_, from, to, bytes);
      cost_bytes_ = bytes;
    }
    return cost_;
  }

  double sum_s_of(std::int32_t rank, double bytes) const {
    if constexpr (Steps::paced) return steps_.sum_s(bytes);
    const bool alike = !Steps::on_networks || network_.model_of.empty();
    return bytes / reduce_bytes_per_s_[alike ? 0 : network_.model_of[rank]];
  }

  // Until when two ports are busy with a message that has begun to pass through them: each may be
  // ahead of its bandwidth by a burst.
  double passed_s(Port& from, Port& to, double begin_s, double transfer_s) {
    from.sent_steadily_s = std::max(from.sent_steadily_s, begin_s) + transfer_s;
    to.received_steadily_s = std::max(to.received_steadily_s, begin_s) + transfer_s;
    const double steadily_s = std::max(from.sent_steadily_s, to.received_steadily_s);
    return std::max(begin_s, steadily_s - burst_s_);
  }

  // How long the message's other pieces take after the first.
  template <typename AnyStep>
  double trailing_s(std::int32_t rank, const AnyStep& step) {
    const int pieces = steps_.pieces(rank);
    if (pieces == 1) return 0;
    const Cost& price = cost_of(rank, step.peer, bytes_of(rank).of(step));
    return (pieces - 1) * (price.before_s + price.transfer_s / pieces);
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
  const std::vector<SegmentBytes> bytes_;
  const PortsBusy& busy_;
  const bool alike_;      // one cost for all pairs of ranks
  const bool overheads_;  // processors work for messages, too
  const double burst_s_;  // of each port
  double now_s_ = 0;
  std::uint64_t found_ = 0;
  std::vector<Rank> ranks_;
  std::vector<Port> ports_;
  EventHeap events_;
  std::vector<RankEvents> by_rank_;  // instead, where ranks are run one by one
  Flows flows_;
  std::vector<Line> to_peers_;              // by channel, where ports are shared
  std::vector<Uplink> uplinks_;             // per node
  std::vector<Processor> processors_;       // that ranks share; none: each rank has its own
  std::vector<double> reduce_bytes_per_s_;  // by model
  double cost_bytes_ = -1;
  Cost cost_{};
  std::vector<Record> records_;
  Account account_;
};

template <typename Steps>
Ports<Steps>::Ports(Steps& steps, std::vector<SegmentBytes> bytes, const Network& network,
                    const std::vector<double>& arrivals_s, const Accounting& accounting,
                    const PortsBusy& busy)
    : steps_(steps),
      network_(network),
      arrivals_s_(arrivals_s),
      accounting_(accounting),
      bytes_(std::move(bytes)),
      busy_(busy),
      alike_(network.models.size() == 1 && network.node_of.empty()),
      overheads_(
          !std::all_of(network.models.begin(), network.models.end(),
                       [](const Model& model) { return std::holds_alternative<Link>(model); })),
      burst_s_(burst_s(network)),
      ranks_(steps.ranks()),
      ports_(steps.ports()),
      flows_(network.shared_ports ? steps.ports() : 0,
             network.shared_ports ? int(network.uplink_bytes_per_s.size()) : 0, burst_s_,
             partners(network)) {
  for (const Model& model : network.models)
    reduce_bytes_per_s_.push_back(reduce_bytes_per_s(model));
  if (network.has_uplinks()) uplinks_.resize(network.uplink_bytes_per_s.size());
  processors_.resize(std::size_t(processors(network)));
  account_.sends_s.assign(ranks_.size(), 0);
  account_.receives_s.assign(ranks_.size(), 0);
  account_.works_s.assign(ranks_.size(), 0);
}

}  // namespace patallreduce::pricing

#include "pricing/departures.h"
#include "pricing/order_of_time.h"
#include "pricing/progress.h"
