// The part of one rank's steps that a simulation works on: those that are near, in program order,
// with the ordering rule applied as they come. What is done leaves at the front.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "schedule/schedule.h"

namespace patallreduce::pricing {

using schedule::Step;
using schedule::Steps;
using schedule::Verb;

struct LiveStep {
  std::int32_t peer;
  std::int32_t first, last;
  std::int32_t channel, number;  // its message, see pricing/channels.h
  std::int32_t waits;            // for so many earlier steps
  std::int32_t unlocks, last_unlock;
  std::int32_t record;  // what made it ready, then itself; -1: not recorded
  Verb verb;
  bool needs_arrival;  // works on the rank's own contribution, or hands it the result
  bool landed;         // its message is here and its receive paid for
  bool done;
};

// Scratch to find conflicts in: one for the windows of all ranks.
class Conflicts {
 public:
  explicit Conflicts(int segments) : touches_(segments) {}

  void clear() {
    ++epoch_;
    count_ = 0;
  }

  // Calls wait_for(earlier) for every step since `clear` that step i has to wait for, some twice.
  template <typename WaitFor>
  void add(std::int32_t i, const LiveStep& step, const WaitFor& wait_for) {
    for (std::int32_t s = step.first; s < step.last; ++s) {
      Touch& touch = touches_[s];
      if (touch.epoch != epoch_) touch = {epoch_, -1, -1};
      if (touch.writer >= 0) wait_for(touch.writer);
      if (step.verb == Verb::send) {
        if (count_ == readers_.size()) readers_.resize(2 * count_ + 64);
        readers_[count_].step = i;
        readers_[count_].next = touch.readers;
        touch.readers = static_cast<std::int32_t>(count_++);
      } else {
        for (std::int32_t r = touch.readers; r >= 0; r = readers_[r].next) {
          wait_for(readers_[r].step);
        }
        touch.readers = -1;
        touch.writer = i;
      }
    }
  }

 private:
  struct Touch {
    std::uint32_t epoch = 0;
    std::int32_t writer = -1;
    std::int32_t readers = -1;  // since `writer`
  };
  struct Reader {
    std::int32_t step, next;
  };

  std::uint32_t epoch_ = 0;
  std::vector<Touch> touches_;
  std::vector<Reader> readers_;  // `count_` of them
  std::size_t count_ = 0;
};

class Window {
 public:
  // Steps begin()..end() by number in program order.
  std::int32_t begin() const { return begin_; }
  std::int32_t end() const { return end_; }
  LiveStep& operator[](std::int32_t i) { return steps_[static_cast<std::size_t>(i) & mask_]; }

  void append(const Steps& block, Conflicts& conflicts) {
    conflicts.clear();
    for (std::int32_t i = begin_; i < end_; ++i) {
      if (!(*this)[i].done) conflicts.add(i, (*this)[i], [](std::int32_t) {});
    }
    reserve(static_cast<std::size_t>(end_ - begin_) + block.size());
    for (const Step& step : block) {
      const std::int32_t i = end_++;
      LiveStep& live = (*this)[i];
      live = {step.peer, step.first, step.last, -1,    -1,    0,    -1,
              -1,        -1,         step.verb, false, false, false};
      conflicts.add(i, live, [&](std::int32_t earlier) { add_edge(earlier, i); });
    }
  }

  // Step i is done; calls unlocked(later) for every step that waits for none any more, in order.
  template <typename Unlocked>
  void finish(std::int32_t i, const Unlocked& unlocked) {
    (*this)[i].done = true;
    std::int32_t edge = (*this)[i].unlocks;
    while (edge >= 0) {
      const Edge here = edges_[edge];
      edges_[edge].next = free_;
      free_ = edge;
      if (--(*this)[here.later].waits == 0) unlocked(here.later);
      edge = here.next;
    }
    while (begin_ < end_ && (*this)[begin_].done) ++begin_;
  }

 private:
  struct Edge {
    std::int32_t later, next;
  };

  void add_edge(std::int32_t earlier, std::int32_t later) {
    LiveStep& step = (*this)[earlier];
    if (step.last_unlock >= 0 && edges_[step.last_unlock].later == later) return;
    std::int32_t edge = free_;
    if (edge < 0) {
      edge = static_cast<std::int32_t>(edges_.size());
      edges_.emplace_back();
    } else {
      free_ = edges_[edge].next;
    }
    edges_[edge].later = later;
    edges_[edge].next = -1;
    (step.last_unlock >= 0 ? edges_[step.last_unlock].next : step.unlocks) = edge;
    step.last_unlock = edge;
    ++(*this)[later].waits;
  }

  void reserve(std::size_t count) {
    if (count <= steps_.size()) return;
    std::size_t capacity = 8;
    while (capacity < count) capacity *= 2;
    std::vector<LiveStep> larger(capacity);
    for (std::int32_t i = begin_; i < end_; ++i) {
      larger[static_cast<std::size_t>(i) & (capacity - 1)] = (*this)[i];
    }
    steps_.swap(larger);
    mask_ = capacity - 1;
  }

  std::int32_t begin_ = 0, end_ = 0;
  std::size_t mask_ = 0;
  std::vector<LiveStep> steps_;  // a ring of a power of two
  std::vector<Edge> edges_;
  std::int32_t free_ = -1;
};

}  // namespace patallreduce::pricing
