// How messages leave: one after the other through a port and an uplink, or several at once.
#include "pricing/streamed_run.h"

namespace patallreduce::pricing {

void StreamedRun::line_up(std::int32_t rank, std::int32_t n) {
  RankState& state = ranks_[rank];
  --state.waiting;
  if (shared_) return line_up_for_peer(state, rank, n);
  if (!state.sending && state.ready.empty()) return send(rank, n, now_s_);
  insert(state.ready, state.next, n);
  send_next(rank);
}

void StreamedRun::send_next(std::int32_t rank) {
  RankState& state = ranks_[rank];
  if (state.sending || state.next == state.ready.size()) return;
  const auto [since_s, n] = state.ready[state.next++];
  if (state.next == state.ready.size()) {
    state.ready.clear();
    state.next = 0;
  }
  send(rank, n, since_s);
}

// What message it is. False: an empty one, which the executor leaves out.
bool StreamedRun::fill_slot(std::int32_t rank, std::int32_t n) {
  LiveStep& step = ranks_[rank].window[n];
  Channel::Slot& slot = channels_[step.channel].slot(step.number);
  slot.first = step.first;
  slot.last = step.last;
  if (message_bytes_ == 0 || bytes_of(step) > 0) return true;
  slot.record = step.record = recorded(rank, n, step.record, now_s_);
  push(rank, now_s_, What::sent, rank, n);
  push(step.peer, now_s_, What::landed, step.channel, step.number);
  return false;
}

void StreamedRun::send(std::int32_t rank, std::int32_t n, double since_s) {
  RankState& state = ranks_[rank];
  LiveStep& step = state.window[n];
  state.sending = true;
  if (since_s < now_s_) step.record = state.send_record;  // it waited for the port
  if (!fill_slot(rank, n)) return;
  const double bytes = bytes_of(step);
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
  step.record = recorded(rank, n, step.record, until_s);
  channels_[step.channel].slot(step.number).record = step.record;
  state.send_record = peer.receive_record = step.record;
  if (uplink_out_ != nullptr) {
    uplink_out_->out_record = uplink_in_->in_record = step.record;
    uplink_out_ = uplink_in_ = nullptr;
  }
  push(rank, until_s, What::sent, rank, n);
  push(step.peer, until_s + price.after_s, What::landed, step.channel, step.number);
}

// Where ports are shared, only messages between the same two ranks take turns.
void StreamedRun::line_up_for_peer(RankState& state, std::int32_t rank, std::int32_t n) {
  const std::int32_t channel = state.window[n].channel;
  if (static_cast<std::size_t>(channel) >= lines_.size()) lines_.resize(channel + 1);
  Line& line = lines_[channel];
  if (line.sending) return insert(line.ready, line.next, n);
  line.sending = true;
  leave(rank, n);
}

void StreamedRun::leave(std::int32_t rank, std::int32_t n) {
  LiveStep& step = ranks_[rank].window[n];
  if (!fill_slot(rank, n)) return;
  const double send_s = cost_of(rank, step.peer, bytes_of(step)).send_s;
  if (send_s == 0) return start_flow(rank, n);
  push(rank, work(rank, send_s, step.record), What::leaves, rank, n);
}

void StreamedRun::start_flow(std::int32_t rank, std::int32_t n) {
  const LiveStep& step = ranks_[rank].window[n];
  const Cost price = cost_of(rank, step.peer, bytes_of(step));
  account_.sends_s[rank] += price.before_s + price.transfer_s;
  account_.receives_s[step.peer] += price.before_s + price.transfer_s;
  // The sender's overhead, at the begin of all this, is over.
  flows_.start({rank, step.peer, n, step.channel, step.number, price.after_s, 0},
               price.before_s - price.send_s, price.transfer_s, now_s_);
}

void StreamedRun::end_flow() {
  now_s_ = flows_.next_s();
  const Flows::Flow flow = flows_.end();
  LiveStep& step = ranks_[flow.from].window[flow.step];
  Channel::Slot& slot = channels_[flow.channel].slot(flow.number);
  slot.record = step.record = recorded(flow.from, flow.step, step.record, now_s_);
  push(flow.from, now_s_, What::sent, flow.from, flow.step);
  push(flow.to, now_s_ + flow.after_s, What::landed, flow.channel, flow.number);
}

// A message to `channel`'s rank has left: the next one can.
void StreamedRun::leave_next(std::int32_t rank, std::int32_t channel, std::int32_t cause) {
  Line& line = lines_[channel];
  if (line.next == line.ready.size()) {
    line = Line{};
    return;
  }
  const auto [since_s, n] = line.ready[line.next++];
  if (since_s < now_s_) ranks_[rank].window[n].record = cause;  // it waited for its turn
  leave(rank, n);
}

double StreamedRun::through_uplinks(std::int32_t rank, LiveStep& step, double start_s,
                                    double bytes) {
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
  uplink_out_->out_until_s = uplink_in_->in_until_s = start_s + bytes / network_.uplink_bytes_per_s;
  return start_s;
}

}  // namespace patallreduce::pricing
