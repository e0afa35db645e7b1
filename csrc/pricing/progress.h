// What becomes of a step: it is ready, its message is here, its sum is made, it is complete.
#pragma once

#include "pricing/ports.h"

namespace patallreduce::pricing {

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
    const SegmentBytes& bytes = bytes_of(message.to);
    if (!bytes.leaves_out(message)) {
      const Cost price = cost_of(message.from, message.to, bytes.of(message));
      const int pieces = steps_.pieces(message.to);
      const double receive_s = price.receive_s + (pieces - 1) * price.before_s;
      if (receive_s > 0) {
        const double piece_s = receive_s / pieces;  // the first, which others need not wait for
        const double until_s = work(message.to, receive_s, message.record) - receive_s + piece_s;
        return push(message.to, std::max(until_s, now_s_ + piece_s), What::received, where, which);
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
  const double sum_s = step.verb == Verb::recv ? 0 : sum_s_of(rank, bytes_of(rank).of(step));
  if (step.verb == Verb::recv || (Steps::paced && sum_s == 0)) {
    step.record = recorded(rank, n, step.record, now_s_);
    complete(rank, n);
  } else {
    double until_s = work(rank, sum_s, step.record);
    // What goes on with the first piece has to find the last one summed.
    if (steps_.pieces(rank) > 1)
      until_s = std::max(now_s_ + sum_s / steps_.pieces(rank), until_s - trailing_s(rank, step));
    step.record = port_of(rank).work_record = recorded(rank, n, step.record, until_s);
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
  const double whole_s = step.verb == Verb::send ? now_s_ : now_s_ + trailing_s(rank, step);
  if (step.needs_arrival && whole_s >= state.finish_s) {
    state.finish_s = whole_s;
    state.finish_record = record;
  }
  steps_.finish(rank, n, [&](std::int32_t unlocked) {
    steps_.at(rank, unlocked).record = record;
    become_ready(rank, unlocked);
  });
}

}  // namespace patallreduce::pricing
