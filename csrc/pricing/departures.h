// How messages leave: one after the other through a port and an uplink, or several at once.
#pragma once

#include "pricing/ports.h"

namespace patallreduce::pricing {

template <typename Steps>
void Ports<Steps>::line_up(std::int32_t rank, std::int32_t n) {
  steps_.lines_up(rank, n);
  Line& line = shares_ports() ? line_to_peer(rank, n) : port_of(rank).line;
  if (!line.sending && line.ready.empty()) return begin_to_send(rank, line, n, now_s_);
  line.ready.push_back({now_s_, rank, n});
  // Behind what was ready earlier; ties in program order.
  for (std::size_t i = line.ready.size() - 1;
       !Steps::paced && i > line.next && line.ready[i - 1].since_s == now_s_ &&
       line.ready[i - 1].step > n;
       --i) {
    std::swap(line.ready[i - 1], line.ready[i]);
  }
  send_next(line);
}

// Where ports are shared, only messages between the same two ranks take turns.
template <typename Steps>
typename Ports<Steps>::Line& Ports<Steps>::line_to_peer(std::int32_t rank, std::int32_t n) {
  const auto channel = static_cast<std::size_t>(steps_.channel(rank, n));
  if (channel >= to_peers_.size()) to_peers_.resize(channel + 1);
  return to_peers_[channel];
}

// Puts the one whose turn it is in front; the others stay in the order in which they became ready.
template <typename Steps>
void Ports<Steps>::bring_forward(Line& line) {
  if constexpr (Steps::together) {
    const auto key = [&](const ReadySend& send) {
      if (accounting_.turn == Turn::least_left) return steps_.left(send.rank);
      const std::int32_t collective = steps_.collective(send.rank);
      return accounting_.turn == Turn::first_collective ? collective : -collective;
    };
    const auto first = line.ready.begin() + static_cast<std::ptrdiff_t>(line.next);
    const auto chosen = std::min_element(
        first, line.ready.end(), [&](const auto& a, const auto& b) { return key(a) < key(b); });
    std::rotate(first, chosen, chosen + 1);
  }
}

template <typename Steps>
void Ports<Steps>::send_next(Line& line) {
  if (line.sending || line.next == line.ready.size()) return;
  if (accounting_.turn != Turn::first_ready) bring_forward(line);
  const auto [since_s, rank, n] = line.ready[line.next++];
  if (line.next == line.ready.size()) {
    line.ready.clear();
    line.next = 0;
  }
  begin_to_send(rank, line, n, since_s);
}

template <typename Steps>
void Ports<Steps>::begin_to_send(std::int32_t rank, Line& line, std::int32_t n, double since_s) {
  line.sending = true;
  auto& step = steps_.at(rank, n);
  if (since_s < now_s_) step.record = line.record;  // it waited for its turn
  const SegmentBytes& bytes = bytes_of(rank);
  if (bytes.leaves_out(step)) {  // as the executor does
    step.record = recorded(rank, n, step.record, now_s_);
    push_departure(rank, n, now_s_, now_s_);
  } else if (shares_ports()) {
    const double send_s = cost_of(rank, step.peer, bytes.of(step)).send_s;
    if (send_s == 0) return start_flow(rank, n);
    push(rank, work(rank, send_s, step.record), What::leaves, rank, n);
  } else {
    send(rank, n);
  }
}

template <typename Steps>
void Ports<Steps>::send(std::int32_t rank, std::int32_t n) {
  auto& step = steps_.at(rank, n);
  const double bytes = bytes_of(rank).of(step);
  const Cost& price = cost_of(rank, step.peer, bytes);
  double start_s = now_s_;
  const int pieces = steps_.pieces(rank);
  if (has_overheads() && price.send_s > 0) {
    const double send_s = price.send_s + (pieces - 1) * price.before_s;
    start_s = work(rank, send_s, step.record) - send_s;
  }
  Port& port = port_of(rank);
  Port& peer = port_of(step.peer);
  if (!shares_processors() && peer.receives_until_s > start_s) {
    start_s = peer.receives_until_s;
    step.record = peer.receive_record;
  }
  if (price.change_s > 0) start_s = change_partners(rank, step.peer, start_s, step.record);
  const bool far = through_uplinks(rank, step.peer);
  if (far) start_s = take_uplinks(rank, step.peer, start_s, bytes, step.record);
  const double begin_s = start_s + pieces * price.before_s;
  port.sends_elsewhere_s = peer.receives_elsewhere_s = begin_s + price.change_s;
  const bool ahead = burst_s_ > 0 && !network_.same_node(rank, step.peer);
  const double until_s =
      ahead ? passed_s(port, peer, begin_s, price.transfer_s) : begin_s + price.transfer_s;
  if (accounting_.uses) account_.outcome.uses.push_back({rank, n, start_s, until_s});
  if (Steps::on_networks) {
    account_.sends_s[rank] += until_s - start_s;
    account_.receives_s[step.peer] += until_s - start_s;
  }
  step.record = recorded(rank, n, step.record, until_s);
  port.sends_until_s = peer.receives_until_s = until_s;
  port.line.record = peer.receive_record = step.record;
  if (far) uplink_of(rank).out_record = uplink_of(step.peer).in_record = step.record;
  const double piece_s =
      pieces == 1 ? until_s
                  : std::min(start_s + price.before_s + price.transfer_s / pieces, until_s);
  push_departure(rank, n, until_s, piece_s + price.after_s);
}

template <typename Steps>
double Ports<Steps>::change_partners(std::int32_t from, std::int32_t to, double start_s,
                                     std::int32_t& cause) {
  Port &sender = port_of(from), &receiver = port_of(to);
  const std::int32_t sender_port = steps_.port(from), receiver_port = steps_.port(to);
  if (sender.sent_to != receiver_port && sender.sends_elsewhere_s > start_s) {
    start_s = sender.sends_elsewhere_s;
    cause = sender.line.record;
  }
  if (receiver.received_from != sender_port && receiver.receives_elsewhere_s > start_s) {
    start_s = receiver.receives_elsewhere_s;
    cause = receiver.receive_record;
  }
  sender.sent_to = receiver_port;
  receiver.received_from = sender_port;
  return start_s;
}

template <typename Steps>
double Ports<Steps>::take_uplinks(std::int32_t from, std::int32_t to, double start_s, double bytes,
                                  std::int32_t& cause) {
  Uplink &out = uplink_of(from), &in = uplink_of(to);
  if (out.out_until_s > start_s) {
    start_s = out.out_until_s;
    cause = out.out_record;
  }
  if (in.in_until_s > start_s) {
    start_s = in.in_until_s;
    cause = in.in_record;
  }
  out.out_until_s = in.in_until_s =
      start_s + std::max(uplink_s(network_, from, bytes), uplink_s(network_, to, bytes));
  return start_s;
}

template <typename Steps>
void Ports<Steps>::start_flow(std::int32_t rank, std::int32_t n) {
  const auto& step = steps_.at(rank, n);
  const double bytes = bytes_of(rank).of(step);
  const Cost price = cost_of(rank, step.peer, bytes);
  double out_s = price.transfer_s, in_s = out_s;
  if (!alike_ && !network_.same_node(rank, step.peer)) {  // a slow receiver is no slow sender
    out_s = port_s(network_, rank, bytes);
    in_s = port_s(network_, step.peer, bytes);
  }
  // At either end the rank's port or its node's uplink holds it up, whichever is slower. Uplinks
  // are numbered on from the ports.
  const bool far = through_uplinks(rank, step.peer);
  const auto port = [&](std::int32_t of) {
    const bool uplink = far && uplink_s(network_, of, bytes) >= port_s(network_, of, bytes);
    return uplink ? steps_.ports() + network_.node_of[of] : steps_.port(of);
  };
  account_.sends_s[rank] += price.before_s + out_s;
  account_.receives_s[step.peer] += price.before_s + in_s;
  // The sender's overhead, at the begin of all this, is over.
  flows_.start({port(rank), port(step.peer), rank, n, now_s_ - price.send_s, price.after_s,
                out_s > 0 ? in_s / out_s : 1},
               price.before_s - price.send_s, out_s, now_s_);
}

template <typename Steps>
void Ports<Steps>::end_flow() {
  now_s_ = flows_.next_s();
  const Flows::Flow flow = flows_.end();
  auto& step = steps_.at(flow.rank, flow.step);
  step.record = recorded(flow.rank, flow.step, step.record, now_s_);
  if (accounting_.uses)
    account_.outcome.uses.push_back({flow.rank, flow.step, flow.begin_s, now_s_});
  push_departure(flow.rank, flow.step, now_s_, now_s_ + flow.after_s);
}

// The port, or what messages to one rank share of it, is free again.
template <typename Steps>
void Ports<Steps>::sent(std::int32_t rank, std::int32_t n) {
  if (!shares_ports()) {
    Line& line = port_of(rank).line;
    line.sending = false;
    if (n >= 0) complete(rank, n);
    return send_next(line);
  }
  const std::int32_t record = steps_.at(rank, n).record;
  const std::int32_t channel = steps_.channel(rank, n);
  complete(rank, n);
  Line& line = to_peers_[channel];
  line.sending = false;
  line.record = record;
  send_next(line);
}

}  // namespace patallreduce::pricing
