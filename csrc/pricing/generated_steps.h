// Steps made when they are near, ready when earlier ones are done, forgotten at once.
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

#include "pricing/channels.h"
#include "pricing/ports.h"
#include "pricing/window.h"
#include "schedule/needs.h"
#include "schedule/step_source.h"

namespace patallreduce::pricing {

using schedule::Steps;
using schedule::StepSource;
using schedule::Written;

class GeneratedSteps {
 public:
  // A rank turned out to receive from two others, so ranks cannot be run one after the other.
  struct SecondSender {};

  static constexpr bool on_networks = true, paced = false, together = false;

  struct Landing {
    std::int32_t from, to, first, last;
    std::int32_t& record;
  };

  // one_sender: throws SecondSender as soon as a rank has two.
  GeneratedSteps(const StepSource& source, bool one_sender);

  int ranks() const { return static_cast<int>(ranks_.size()); }
  std::int32_t ports() const { return ranks(); }
  // One collective: every rank has a port of its own.
  static std::int32_t port(std::int32_t rank) { return rank; }
  static std::int32_t collective(std::int32_t) { return 0; }
  static int pieces(std::int32_t) { return 1; }
  LiveStep& at(std::int32_t rank, std::int32_t n) { return ranks_[rank].window[n]; }
  std::int32_t channel(std::int32_t rank, std::int32_t n) { return at(rank, n).channel; }
  std::int32_t sender(std::int32_t rank) const { return ranks_[rank].sender; }
  // Every rank behind its sender, as far as they do not form a circle. From now on no rank may
  // begin to receive.
  std::vector<std::int32_t> behind_senders();

  // What of the rank's next steps waits for none, if it is time to generate some: what is near, and
  // what can happen already though much before it waits: the receives of messages that are here,
  // and the sends of what has been received. Else null. last_done: a record for them.
  const std::vector<std::int32_t>* next_starters(std::int32_t rank, bool arrived,
                                                 std::int32_t last_done) {
    const RankState& state = ranks_[rank];
    if (state.next_block == blocks_) return nullptr;
    // Fewer steps wait for something than this, or fewer than three blocks.
    const bool near = state.waiting < std::max(std::int32_t(8), 3 * longest_block_);
    if (!near && !(arrived && (state.unknown > 0 || state.in_last_block))) return nullptr;
    return &generate(rank, last_done);
  }

  // The step has lined up for port or processor.
  void lines_up(std::int32_t rank, std::int32_t n) {
    RankState& state = ranks_[rank];
    --state.waiting;
    const bool receives = state.window[n].verb != Verb::send;
    state.in_last_block |= receives && n >= state.last_begin;
  }

  // A message is known by its channel and its number there.
  MessageId depart(std::int32_t rank, std::int32_t n) {
    const LiveStep& step = at(rank, n);
    Channel::Slot& slot = channels_[step.channel].slot(step.number);
    slot.first = step.first;
    slot.last = step.last;
    slot.record = step.record;
    return {step.channel, step.number};
  }

  Landing landing(std::int32_t channel, std::int32_t number) {
    Channel& of = channels_[channel];
    Channel::Slot& slot = of.slot(number);
    return {of.from, of.to, slot.first, slot.last, slot.record};
  }

  // Its receive; its n is -1 if that is not generated yet.
  StepId deliver(std::int32_t channel, std::int32_t number);

  template <typename Unlocked>
  void finish(std::int32_t rank, std::int32_t n, const Unlocked& unlocked) {
    ranks_[rank].window.finish(n, unlocked);
  }

  void check_end();

 private:
  struct Hint {  // the channel of the last peer
    std::int32_t peer = -1, channel = -1;
  };

  struct RankState {
    Window window;
    std::int32_t sender = -1;  // of all messages to it; -1: none yet
    int next_block = 0;
    std::int32_t last_begin = 0;  // where the last generated block begins
    std::int32_t waiting = 0;     // steps that have lined up for neither port nor processor
    std::int32_t unknown = 0;     // messages that are here and whose receives are not generated
    bool in_last_block = false;   // a receive there has happened: its sends may be in the next
    Hint out, in;
  };

  const std::vector<std::int32_t>& generate(std::int32_t rank, std::int32_t last_done);
  void check_step(std::int32_t rank, std::int32_t first, std::size_t i) const;
  void connect(std::int32_t rank, std::int32_t n);
  void meet(Channel& channel, std::int32_t number, LiveStep& step);

  const StepSource& source_;
  const std::int32_t segments_;
  const int blocks_;
  const bool one_sender_;
  bool senders_known_ = false;
  Conflicts conflicts_;
  Written written_;
  std::vector<RankState> ranks_;
  Channels channels_;
  Steps block_;
  std::int32_t longest_block_ = 0;
  std::vector<std::int32_t> starters_;
};

}  // namespace patallreduce::pricing
