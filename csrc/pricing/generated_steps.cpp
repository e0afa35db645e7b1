#include "pricing/generated_steps.h"

#include <algorithm>

#include "errors.h"
#include "schedule/print.h"

namespace patallreduce::pricing {

GeneratedSteps::GeneratedSteps(const StepSource& source, bool one_sender)
    : source_(source),
      segments_(source.problem().segments),
      blocks_(source.blocks()),
      one_sender_(one_sender),
      conflicts_(segments_),
      written_(segments_, source.problem().ranks),
      ranks_(source.problem().ranks) {}

std::vector<std::int32_t> GeneratedSteps::behind_senders() {
  senders_known_ = true;
  std::vector<std::int32_t> order, path;
  std::vector<char> seen(ranks_.size(), 0);
  for (std::int32_t first = 0; first < ranks(); ++first) {
    for (std::int32_t rank = first; rank >= 0 && !seen[rank]; rank = ranks_[rank].sender) {
      seen[rank] = 1;
      path.push_back(rank);
    }
    order.insert(order.end(), path.rbegin(), path.rend());
    path.clear();
  }
  return order;
}

// Until 32 steps wait for something, or six blocks.
const std::vector<std::int32_t>& GeneratedSteps::generate(std::int32_t rank,
                                                          std::int32_t last_done) {
  RankState& state = ranks_[rank];
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
           state.waiting < std::max(std::int32_t(32), 6 * longest_block_));
  state.in_last_block = false;
  for (std::size_t i = 0; i < block_.size(); ++i) check_step(rank, first, i);
  state.window.append(block_, conflicts_);
  starters_.clear();
  for (std::int32_t n = first; n < state.window.end(); ++n) {
    connect(rank, n);
    LiveStep& step = state.window[n];
    if (step.waits > 0) continue;
    if (step.record < 0) step.record = last_done;
    starters_.push_back(n);
  }
  return starters_;
}

void GeneratedSteps::check_step(std::int32_t rank, std::int32_t first, std::size_t i) const {
  const Step& step = block_[i];
  PATR_CHECK(step.peer >= 0 && step.peer < ranks() && step.peer != rank, ScheduleError, "rank ",
             rank, " step ", first + static_cast<std::int32_t>(i), " (", schedule::text(step),
             "): expected another rank below ", ranks(), " as its peer");
  PATR_CHECK(step.first >= 0 && step.first < step.last && step.last <= segments_, ScheduleError,
             "rank ", rank, " step ", first + static_cast<std::int32_t>(i), " (",
             schedule::text(step), "): expected 0 <= first < last <= segments = ", segments_);
}

// A new step to its message. Whether a receive has the result (schedule/needs.h) cannot be seen
// yet; it need not: what replaces a rank's contribution comes after that has left, so after the
// arrival.
void GeneratedSteps::connect(std::int32_t rank, std::int32_t n) {
  RankState& state = ranks_[rank];
  LiveStep& step = state.window[n];
  if (step.verb == Verb::send) {
    if (state.out.peer != step.peer) state.out = {step.peer, channels_.between(rank, step.peer)};
    step.channel = state.out.channel;
    step.number = channels_[step.channel].sends++;
    step.needs_arrival = written_.misses(step, rank);
    return;
  }
  if (state.in.peer != step.peer) {
    if (one_sender_ && (state.sender >= 0 || senders_known_)) throw SecondSender{};
    state.in = {step.peer, channels_.between(step.peer, rank)};
    state.sender = step.peer;
  }
  step.channel = state.in.channel;
  Channel& channel = channels_[step.channel];
  step.number = channel.receives++;
  step.needs_arrival = true;
  written_.add(step, rank);
  Channel::Slot& slot = channel.slot(step.number);
  slot.receive = n;
  if (slot.landed) {
    --state.unknown;
    meet(channel, step.number, step);
  }
}

// Both ends of a message are known and it is here.
void GeneratedSteps::meet(Channel& channel, std::int32_t number, LiveStep& step) {
  const Channel::Slot& slot = channel.slot(number);
  PATR_CHECK(slot.first == step.first && slot.last == step.last, ScheduleError, "rank ", channel.to,
             ": takes segments [", step.first, ", ", step.last, ") as message ", number,
             " of rank ", channel.from, ", which sends [", slot.first, ", ", slot.last, ")");
  step.landed = true;
  if (step.waits == 0) step.record = slot.record;
  channel.release(number);
}

StepId GeneratedSteps::deliver(std::int32_t c, std::int32_t number) {
  Channel& channel = channels_[c];
  Channel::Slot& slot = channel.slot(number);
  slot.landed = true;
  const StepId receive{channel.to, slot.receive};
  if (receive.n < 0) {
    ++ranks_[channel.to].unknown;
  } else {
    meet(channel, number, at(receive.rank, receive.n));
  }
  return receive;
}

void GeneratedSteps::check_end() {
  for (const Channel& channel : channels_.all()) {
    if (channel.sends == channel.receives) continue;
    const bool more_sends = channel.sends > channel.receives;
    const std::int32_t ended = more_sends ? channel.to : channel.from;
    if (ranks_[ended].next_block < blocks_) continue;  // a deadlock
    throw ScheduleError(concat("rank ", channel.from, " sends ", channel.sends,
                               " messages to rank ", channel.to, ", which takes ",
                               channel.receives));
  }
  for (std::int32_t rank = 0; rank < ranks(); ++rank) {
    const std::int32_t n = ranks_[rank].window.begin();
    if (n == ranks_[rank].window.end()) continue;
    const LiveStep& step = at(rank, n);
    throw_deadlock(rank, n, {step.verb, step.peer, step.first, step.last, -1});
  }
}

}  // namespace patallreduce::pricing
