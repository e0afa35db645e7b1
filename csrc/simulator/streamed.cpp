#include "simulator/streamed.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "errors.h"
#include "schedule/print.h"
#include "simulator/channels.h"
#include "simulator/events.h"
#include "simulator/flows.h"
#include "simulator/window.h"

namespace patallreduce {

namespace {

// A window is refilled when fewer steps than the first wait for something, or fewer than three
// blocks; then to the second, or six.
constexpr std::int32_t least_waiting = 8, enough_waiting = 32;
constexpr std::int32_t least_blocks = 3, enough_blocks = 6;
// A rank's events in a row, so that the messages waiting at the next rank stay few.
constexpr int most_in_a_row = 512;

struct ReadySend {
  double since_s;
  std::int32_t step;
};

struct Hint {  // the channel of the last peer
  std::int32_t peer = -1, channel = -1;
};

struct RankState {
  Window window;
  RankEvents events;  // only where ranks are run one by one
  double receives_until_s = -HUGE_VAL;
  double works_until_s = -HUGE_VAL;
  double finish_s = -HUGE_VAL;
  std::int32_t sender = -1;  // of all messages to it; -1: none yet
  bool sending = false;
  bool arrived = false;
  std::vector<ReadySend> ready;  // from `next` on
  std::size_t next = 0;
  std::vector<std::int32_t> before_arrival;  // ready, but for the arrival
  int next_block = 0;
  std::int32_t waiting = 0;  // steps in the window that are not done and have not lined up to leave
  Hint out, in;
  // Records of what last used the port, the processor, and made the result.
  std::int32_t send_record = -1, receive_record = -1, work_record = -1, finish_record = -1;
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

struct Line {  // of messages from one rank to another
  bool sending = false;
  std::vector<ReadySend> ready;  // from `next` on
  std::size_t next = 0;
};

struct SecondSender {};

double burst_s(const Network& network) {
  return network.burst_bytes > 0 ? cost(network.models.front(), network.burst_bytes).transfer_s : 0;
}

class StreamedRun {
 public:
  StreamedRun(const StepSource& source, std::uint64_t message_bytes, const Network& network,
              const std::vector<double>& arrivals_s, bool records, bool by_rank)
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

  Account run() {
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

 private:
  double arrival_s(std::int32_t rank) const { return arrivals_s_.empty() ? 0 : arrivals_s_[rank]; }

  void push(std::int32_t rank, double at_s, What what, std::int32_t where, std::int32_t which) {
    const std::uint64_t order = found_++ << 3 | static_cast<std::uint64_t>(what);
    if (by_rank_) {
      ranks_[rank].events.push(what, at_s, order, where, which);
    } else {
      events_.push(at_s, order, where, which);
    }
  }

  // A rank behind its one sender is run until the earliest time at which a message that the sender
  // has not sent yet could be there.
  void run_rank_by_rank() {
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
  std::vector<std::int32_t> behind_senders() const {
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

  void happen(const Event& event) {
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

  // Generates what is near.
  void refill(std::int32_t rank) {
    RankState& state = ranks_[rank];
    while (state.next_block < blocks_ &&
           state.waiting < std::max(least_waiting, least_blocks * longest_block_)) {
      block_.clear();
      const std::int32_t first = state.window.end();
      while (state.next_block < blocks_ &&
             state.waiting < std::max(enough_waiting, enough_blocks * longest_block_)) {
        const auto before = static_cast<std::int32_t>(block_.size());
        source_.append(rank, state.next_block++, block_);
        const std::int32_t added = static_cast<std::int32_t>(block_.size()) - before;
        longest_block_ = std::max(longest_block_, added);
        state.waiting += added;
      }
      for (std::size_t i = 0; i < block_.size(); ++i) check_step(rank, first, i);
      state.window.append(block_, conflicts_);
      starters_.clear();
      for (std::int32_t n = first; n < state.window.end(); ++n) connect(rank, n);
      std::vector<std::int32_t> starters;
      starters.swap(starters_);
      for (const std::int32_t n : starters) become_ready(rank, n);
      starters_.swap(starters);
    }
  }

  void check_step(std::int32_t rank, std::int32_t first, std::size_t i) const {
    const Step& step = block_[i];
    PATR_CHECK(step.peer >= 0 && step.peer < count_ && step.peer != rank, ScheduleError, "rank ",
               rank, " step ", first + static_cast<std::int32_t>(i), " (", text(step),
               "): expected another rank below ", count_, " as its peer");
    PATR_CHECK(step.first >= 0 && step.first < step.last && step.last <= segments_, ScheduleError,
               "rank ", rank, " step ", first + static_cast<std::int32_t>(i), " (", text(step),
               "): expected 0 <= first < last <= segments = ", segments_);
  }

  // A new step to its message. Whether a receive has the result cannot be seen yet; it need not:
  // what replaces a rank's contribution comes after that has left, so after the arrival.
  void connect(std::int32_t rank, std::int32_t n) {
    RankState& state = ranks_[rank];
    LiveStep& step = state.window[n];
    std::uint64_t* written = &written_[written_words_ * static_cast<std::size_t>(rank)];
    if (step.verb == Verb::send) {
      if (state.out.peer != step.peer) state.out = {step.peer, channels_.between(rank, step.peer)};
      step.channel = state.out.channel;
      step.number = channels_[step.channel].sends++;
      for (std::int32_t s = step.first; s < step.last; ++s) {
        step.needs_arrival |= (written[s / 64] >> (s % 64) & 1) == 0;
      }
    } else {
      if (state.in.peer != step.peer) {
        if (by_rank_ && state.sender >= 0) throw SecondSender{};
        if (by_rank_ && running_) throw SecondSender{};  // the order of ranks is made
        state.in = {step.peer, channels_.between(step.peer, rank)};
        state.sender = step.peer;
      }
      step.channel = state.in.channel;
      Channel& channel = channels_[step.channel];
      step.number = channel.receives++;
      step.needs_arrival = true;
      for (std::int32_t s = step.first; s < step.last; ++s) {
        written[s / 64] |= std::uint64_t(1) << (s % 64);
      }
      Channel::Slot& slot = channel.slot(step.number);
      slot.receive = n;
      if (slot.landed) meet(channel, step.number, step);
    }
    if (step.waits > 0) return;
    if (step.record < 0) step.record = state.done_record;
    starters_.push_back(n);
  }

  // Both ends of a message are known and it is here.
  void meet(Channel& channel, std::int32_t number, LiveStep& step) {
    const Channel::Slot& slot = channel.slot(number);
    PATR_CHECK(slot.first == step.first && slot.last == step.last, ScheduleError, "rank ",
               channel.to, ": takes segments [", step.first, ", ", step.last, ") as message ",
               number, " of rank ", channel.from, ", which sends [", slot.first, ", ", slot.last,
               ")");
    step.landed = true;
    if (step.waits == 0) step.record = slot.record;
    channel.release(number);
  }

  void call(std::int32_t rank) {
    std::int32_t cause = recorded(rank, -1, -1, now_s_);
    push(rank, work(rank, network_.call_s, cause), What::called, rank, 0);
  }

  void arrive(std::int32_t rank) {
    RankState& state = ranks_[rank];
    state.arrived = true;
    state.finish_s = std::max(state.finish_s, now_s_);
    const std::int32_t record = recorded(rank, -1, -1, now_s_);
    if (state.finish_s == now_s_) state.finish_record = record;
    state.done_record = record;
    std::vector<std::int32_t> waiting;
    waiting.swap(state.before_arrival);
    std::sort(waiting.begin(), waiting.end());  // all are ready now: program order
    for (const std::int32_t n : waiting) {
      state.window[n].record = record;
      become_ready(rank, n);
    }
  }

  // Its earlier steps are done, at now_s_.
  void become_ready(std::int32_t rank, std::int32_t n) {
    RankState& state = ranks_[rank];
    const LiveStep& step = state.window[n];
    if (step.verb != Verb::send) {
      if (step.landed) take(rank, n);
    } else if (step.needs_arrival && !state.arrived) {
      state.before_arrival.push_back(n);
    } else if (!network_.posted_before_arrival && arrival_s(step.peer) > now_s_) {
      push(rank, arrival_s(step.peer), What::may_leave, rank, n);
    } else {
      line_up(rank, n);
    }
  }

  void line_up(std::int32_t rank, std::int32_t n) {
    RankState& state = ranks_[rank];
    --state.waiting;
    if (shared_) return line_up_for_peer(state, rank, n);
    if (!state.sending && state.ready.empty()) return send(rank, n, now_s_);
    insert(state.ready, state.next, n);
    send_next(rank);
  }

  void send_next(std::int32_t rank) {
    RankState& state = ranks_[rank];
    if (state.sending || state.next == state.ready.size()) return;
    const auto [since_s, n] = state.ready[state.next++];
    if (state.next == state.ready.size()) {
      state.ready.clear();
      state.next = 0;
    }
    send(rank, n, since_s);
  }

  void send(std::int32_t rank, std::int32_t n, double since_s) {
    RankState& state = ranks_[rank];
    LiveStep& step = state.window[n];
    state.sending = true;
    if (since_s < now_s_) step.record = state.send_record;  // it waited for the port
    Channel::Slot& slot = channels_[step.channel].slot(step.number);
    slot.first = step.first;
    slot.last = step.last;
    const double bytes = bytes_of(step);
    if (message_bytes_ > 0 && bytes == 0) {  // the executor leaves it out
      slot.record = step.record = recorded(rank, n, step.record, now_s_);
      push(rank, now_s_, What::sent, rank, n);
      push(step.peer, now_s_, What::landed, step.channel, step.number);
      return;
    }
    const Cost price = cost_of(rank, step.peer, bytes);
    double start_s = now_s_;
    if (price.send_s > 0) {
      start_s = work(rank, price.send_s, step.record) - price.send_s;
    }
    RankState& peer = ranks_[step.peer];
    if (peer.receives_until_s > start_s) {
      start_s = peer.receives_until_s;
      step.record = peer.receive_record;
    }
    if (!uplinks_.empty() && !network_.same_node(rank, step.peer)) {
      start_s = through_uplinks(rank, step, start_s, bytes);
    }
    const double until_s = start_s + price.before_s + price.transfer_s;
    const double port_s = until_s - start_s;
    peer.receives_until_s = until_s;
    account_.sends_s[rank] += port_s;
    account_.receives_s[step.peer] += port_s;
    slot.record = step.record = recorded(rank, n, step.record, until_s);
    state.send_record = peer.receive_record = step.record;
    if (uplink_out_ != nullptr) {
      uplink_out_->out_record = uplink_in_->in_record = step.record;
      uplink_out_ = uplink_in_ = nullptr;
    }
    push(rank, until_s, What::sent, rank, n);
    push(step.peer, until_s + price.after_s, What::landed, step.channel, step.number);
  }

  // Where ports are shared, only messages between the same two ranks take turns.
  void line_up_for_peer(RankState& state, std::int32_t rank, std::int32_t n) {
    const std::int32_t channel = state.window[n].channel;
    if (static_cast<std::size_t>(channel) >= lines_.size()) lines_.resize(channel + 1);
    Line& line = lines_[channel];
    if (line.sending) return insert(line.ready, line.next, n);
    line.sending = true;
    leave(rank, n);
  }

  // Behind what was ready earlier; ties in program order.
  void insert(std::vector<ReadySend>& ready, std::size_t first, std::int32_t n) const {
    ready.push_back({now_s_, n});
    for (std::size_t i = ready.size() - 1;
         i > first && ready[i - 1].since_s == now_s_ && ready[i - 1].step > n; --i) {
      std::swap(ready[i - 1], ready[i]);
    }
  }

  void leave(std::int32_t rank, std::int32_t n) {
    LiveStep& step = ranks_[rank].window[n];
    Channel::Slot& slot = channels_[step.channel].slot(step.number);
    slot.first = step.first;
    slot.last = step.last;
    const double bytes = bytes_of(step);
    if (message_bytes_ > 0 && bytes == 0) {  // the executor leaves it out
      slot.record = step.record = recorded(rank, n, step.record, now_s_);
      push(rank, now_s_, What::sent, rank, n);
      push(step.peer, now_s_, What::landed, step.channel, step.number);
      return;
    }
    const double send_s = cost_of(rank, step.peer, bytes).send_s;
    if (send_s == 0) return start_flow(rank, n);
    push(rank, work(rank, send_s, step.record), What::leaves, rank, n);
  }

  void start_flow(std::int32_t rank, std::int32_t n) {
    const LiveStep& step = ranks_[rank].window[n];
    const Cost price = cost_of(rank, step.peer, bytes_of(step));
    account_.sends_s[rank] += price.before_s + price.transfer_s;
    account_.receives_s[step.peer] += price.before_s + price.transfer_s;
    // The sender's overhead, at the begin of all this, is over.
    flows_.start({rank, step.peer, n, step.channel, step.number, price.after_s, 0},
                 price.before_s - price.send_s, price.transfer_s, now_s_);
  }

  void end_flow() {
    now_s_ = flows_.next_s();
    const Flows::Flow flow = flows_.end();
    LiveStep& step = ranks_[flow.from].window[flow.step];
    Channel::Slot& slot = channels_[flow.channel].slot(flow.number);
    slot.record = step.record = recorded(flow.from, flow.step, step.record, now_s_);
    push(flow.from, now_s_, What::sent, flow.from, flow.step);
    push(flow.to, now_s_ + flow.after_s, What::landed, flow.channel, flow.number);
  }

  // A message to `channel`'s rank has left: the next one can.
  void leave_next(std::int32_t rank, std::int32_t channel, std::int32_t cause) {
    Line& line = lines_[channel];
    if (line.next == line.ready.size()) {
      line = Line{};
      return;
    }
    const auto [since_s, n] = line.ready[line.next++];
    if (since_s < now_s_) ranks_[rank].window[n].record = cause;  // it waited for its turn
    leave(rank, n);
  }

  double through_uplinks(std::int32_t rank, LiveStep& step, double start_s, double bytes) {
    uplink_out_ = &uplinks_[network_.node_of[rank]];
    uplink_in_ = &uplinks_[network_.node_of[step.peer]];
    if (uplink_out_->out_until_s > start_s) {
      start_s = uplink_out_->out_until_s;
      step.record = uplink_out_->out_record;
    }
    if (uplink_in_->in_until_s > start_s) {
      start_s = uplink_in_->in_until_s;
      step.record = uplink_in_->in_record;
    }
    uplink_out_->out_until_s = uplink_in_->in_until_s =
        start_s + bytes / network_.uplink_bytes_per_s;
    return start_s;
  }

  // The processor's turn: until when it works. `cause` becomes what it had to wait for.
  double work(std::int32_t rank, double seconds, std::int32_t& cause) {
    RankState& state = ranks_[rank];
    if (state.works_until_s > now_s_) cause = state.work_record;
    state.works_until_s = std::max(now_s_, state.works_until_s) + seconds;
    state.work_record = cause;
    account_.works_s[rank] += seconds;
    return state.works_until_s;
  }

  void land(std::int32_t c, std::int32_t number) {
    Channel& channel = channels_[c];
    const std::int32_t to = channel.to;
    Channel::Slot& slot = channel.slot(number);
    const double bytes = bytes_of(slot);
    const double receive_s =
        message_bytes_ > 0 && bytes == 0 ? 0 : cost_of(channel.from, to, bytes).receive_s;
    if (receive_s > 0) {
      push(to, work(to, receive_s, slot.record), What::received, c, number);
    } else {
      deliver(c, number);
      refill(to);
    }
  }

  void deliver(std::int32_t c, std::int32_t number) {
    Channel& channel = channels_[c];
    const std::int32_t to = channel.to;
    Channel::Slot& slot = channel.slot(number);
    slot.landed = true;
    if (slot.receive < 0) return;
    const std::int32_t n = slot.receive;
    LiveStep& step = ranks_[to].window[n];
    meet(channel, number, step);
    if (step.waits == 0) take(to, n);
  }

  // A message is here and its receive's turn has come.
  void take(std::int32_t rank, std::int32_t n) {
    RankState& state = ranks_[rank];
    LiveStep& step = state.window[n];
    if (step.needs_arrival && !state.arrived) {
      state.before_arrival.push_back(n);
    } else if (step.verb == Verb::recv) {
      step.record = recorded(rank, n, step.record, now_s_);
      complete(rank, n);
    } else {
      const double sum_s = bytes_of(step) / reduce_bytes_per_s_[model_of(rank)];
      const double until_s = work(rank, sum_s, step.record);
      step.record = state.work_record = recorded(rank, n, step.record, until_s);
      push(rank, until_s, What::summed, rank, n);
    }
  }

  // A rank has its result with the last write of every segment; any earlier write of a segment is
  // done before that. A segment that is never written is the caller's again once it is sent.
  void complete(std::int32_t rank, std::int32_t n) {
    RankState& state = ranks_[rank];
    const LiveStep& step = state.window[n];
    const std::int32_t record = state.done_record = step.record;
    if (step.verb != Verb::send) --state.waiting;
    if (step.needs_arrival && now_s_ >= state.finish_s) {
      state.finish_s = now_s_;
      state.finish_record = record;
    }
    state.window.finish(n, [&](std::int32_t unlocked) {
      state.window[unlocked].record = record;
      become_ready(rank, unlocked);
    });
  }

  std::int32_t model_of(std::int32_t rank) const {
    return network_.model_of.empty() ? 0 : network_.model_of[rank];
  }

  const Cost& cost_of(std::int32_t from, std::int32_t to, double bytes) {
    if (!alike_ || bytes != cost_bytes_) {
      cost_ = cost(network_, from, to, bytes);
      cost_bytes_ = bytes;
    }
    return cost_;
  }

  // Segments as the executor cuts them, but for its alignment.
  std::uint64_t begin(std::int32_t segment) const {
    return static_cast<std::uint64_t>(static_cast<unsigned __int128>(message_bytes_) *
                                      static_cast<unsigned>(segment) /
                                      static_cast<unsigned>(segments_));
  }

  template <typename Range>
  double bytes_of(const Range& range) const {
    if (equal_segments_) return segment_bytes_ * (range.last - range.first);
    return static_cast<double>(begin(range.last) - begin(range.first));
  }

  std::int32_t recorded(std::int32_t rank, std::int32_t step, std::int32_t cause, double done_s) {
    if (!records_wanted_) return -1;
    PATR_CHECK(records_.size() < (1u << 31) - 1, ScheduleError,
               "critical path: expected fewer than 2^31 steps");
    records_.push_back({rank, step, cause, done_s});
    return static_cast<std::int32_t>(records_.size()) - 1;
  }

  void find_critical_path() {
    const RankState* last = &ranks_.front();
    for (const RankState& state : ranks_) {
      if (state.finish_s > last->finish_s) last = &state;
    }
    for (std::int32_t n = last->finish_record; n >= 0; n = records_[n].cause) {
      account_.critical_path.push_back({records_[n].rank, records_[n].step, records_[n].done_s});
    }
    std::reverse(account_.critical_path.begin(), account_.critical_path.end());
  }

  void check_end() {
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

  const StepSource& source_;
  const Network& network_;
  const std::vector<double>& arrivals_s_;
  const std::uint64_t message_bytes_;
  const std::int32_t count_, segments_;
  const int blocks_;
  const double segment_bytes_;
  const bool equal_segments_;
  const bool alike_;   // one cost for all pairs of ranks
  const bool shared_;  // ports, by all messages through them
  const bool records_wanted_;
  const bool by_rank_;
  bool running_ = false;
  double now_s_ = 0;
  std::uint64_t found_ = 0;
  Conflicts conflicts_;
  std::size_t written_words_;
  std::vector<std::uint64_t> written_;  // per rank a bit per segment: some step so far writes it
  std::vector<RankState> ranks_;
  Flows flows_;
  std::vector<Line> lines_;  // by channel
  Channels channels_;
  EventHeap events_;
  std::vector<Uplink> uplinks_;                          // per node
  Uplink *uplink_out_ = nullptr, *uplink_in_ = nullptr;  // that the message takes
  std::vector<double> reduce_bytes_per_s_;               // by model
  double cost_bytes_ = -1;
  Cost cost_{};
  std::vector<Record> records_;
  Steps block_;
  std::int32_t longest_block_ = 0;
  std::vector<std::int32_t> starters_;
  Account account_;
};

}  // namespace

Account simulate_streamed(const StepSource& source, std::uint64_t message_bytes,
                          const Network& network, const std::vector<double>& arrivals_s,
                          const Accounting& accounting) {
  const int ranks = source.problem().ranks;
  check(network, ranks);
  check_arrivals(arrivals_s, ranks);
  const auto run = [&](bool by_rank) {
    return StreamedRun(source, message_bytes, network, arrivals_s, accounting.critical_path,
                       by_rank)
        .run();
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
    } catch (const SecondSender&) {  // then in the order of time
    }
  }
  return run(false);
}

}  // namespace patallreduce
