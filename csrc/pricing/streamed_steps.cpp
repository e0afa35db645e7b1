// What becomes of a rank's steps: generated when they are near, ready when earlier ones are done.
#include <algorithm>

#include "pricing/streamed_run.h"
#include "schedule/print.h"

namespace patallreduce::pricing {

using schedule::Step;
using schedule::text;
using schedule::Verb;

namespace {

// A window is refilled when fewer steps than the first wait for something, or fewer than three
// blocks; then to the second, or six.
constexpr std::int32_t least_waiting = 8, enough_waiting = 32;
constexpr std::int32_t least_blocks = 3, enough_blocks = 6;

}  // namespace

// Generates what is near, and what can happen already though much before it waits: the receives of
// messages that are here, and the sends of what has been received.
void StreamedRun::refill(std::int32_t rank) {
  RankState& state = ranks_[rank];
  while (state.next_block < blocks_ &&
         (state.waiting < std::max(least_waiting, least_blocks * longest_block_) ||
          (state.arrived && (state.unknown > 0 || state.in_last_block)))) {
    block_.clear();
    const std::int32_t first = state.window.end();
    do {
      const auto before = static_cast<std::int32_t>(block_.size());
      source_.append(rank, state.next_block++, block_);
      const std::int32_t added = static_cast<std::int32_t>(block_.size()) - before;
      longest_block_ = std::max(longest_block_, added);
      state.waiting += added;
      state.last_begin = first + before;
    } while (state.next_block < blocks_ &&
             state.waiting < std::max(enough_waiting, enough_blocks * longest_block_));
    state.in_last_block = false;
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

void StreamedRun::check_step(std::int32_t rank, std::int32_t first, std::size_t i) const {
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
void StreamedRun::connect(std::int32_t rank, std::int32_t n) {
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
    if (slot.landed) {
      --state.unknown;
      meet(channel, step.number, step);
    }
  }
  if (step.waits > 0) return;
  if (step.record < 0) step.record = state.done_record;
  starters_.push_back(n);
}

// Both ends of a message are known and it is here.
void StreamedRun::meet(Channel& channel, std::int32_t number, LiveStep& step) {
  const Channel::Slot& slot = channel.slot(number);
  PATR_CHECK(slot.first == step.first && slot.last == step.last, ScheduleError, "rank ", channel.to,
             ": takes segments [", step.first, ", ", step.last, ") as message ", number,
             " of rank ", channel.from, ", which sends [", slot.first, ", ", slot.last, ")");
  step.landed = true;
  if (step.waits == 0) step.record = slot.record;
  channel.release(number);
}

void StreamedRun::call(std::int32_t rank) {
  std::int32_t cause = recorded(rank, -1, -1, now_s_);
  push(rank, work(rank, network_.call_s, cause), What::called, rank, 0);
}

void StreamedRun::arrive(std::int32_t rank) {
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
void StreamedRun::become_ready(std::int32_t rank, std::int32_t n) {
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

void StreamedRun::land(std::int32_t c, std::int32_t number) {
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

void StreamedRun::deliver(std::int32_t c, std::int32_t number) {
  Channel& channel = channels_[c];
  const std::int32_t to = channel.to;
  Channel::Slot& slot = channel.slot(number);
  slot.landed = true;
  if (slot.receive < 0) {
    ++ranks_[to].unknown;
    return;
  }
  const std::int32_t n = slot.receive;
  LiveStep& step = ranks_[to].window[n];
  meet(channel, number, step);
  if (step.waits == 0) take(to, n);
}

// A message is here and its receive's turn has come.
void StreamedRun::take(std::int32_t rank, std::int32_t n) {
  RankState& state = ranks_[rank];
  LiveStep& step = state.window[n];
  if (step.needs_arrival && !state.arrived) {
    state.before_arrival.push_back(n);
    return;
  }
  --state.waiting;
  state.in_last_block |= n >= state.last_begin;
  if (step.verb == Verb::recv) {
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
void StreamedRun::complete(std::int32_t rank, std::int32_t n) {
  RankState& state = ranks_[rank];
  const LiveStep& step = state.window[n];
  const std::int32_t record = state.done_record = step.record;
  if (step.needs_arrival && now_s_ >= state.finish_s) {
    state.finish_s = now_s_;
    state.finish_record = record;
  }
  state.window.finish(n, [&](std::int32_t unlocked) {
    state.window[unlocked].record = record;
    become_ready(rank, unlocked);
  });
}

}  // namespace patallreduce::pricing
