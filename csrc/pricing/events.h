// What is going to happen, first by time, then by what it is, then in the order in which it was
// found: so one rank's order does not depend on when those of others are found.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace patallreduce::pricing {

// called: of a rank; sent, summed, may_leave, leaves: of its step; landed, received: of a channel's
// message.
enum class What : std::uint32_t {
  arrives,
  sent,
  landed,
  received,
  summed,
  may_leave,
  leaves,
  called
};

// An event's order is what it is, then its number; or, as_found, its number before what it is.
constexpr int what_shift = 60, as_found_shift = 3;

struct Event {
  Event() = default;
  Event(double at_s, std::uint64_t order, std::int32_t where, std::int32_t which)
      : at_s(at_s), order(order), where(where), which(which) {}

  double at_s = HUGE_VAL;
  std::uint64_t order = 0;  // what, then its number
  std::int32_t where = 0;   // rank or channel
  std::int32_t which = 0;   // step or message

  What what() const { return static_cast<What>(order >> what_shift); }
};

inline bool later(const Event& a, const Event& b) {
  return a.at_s != b.at_s ? a.at_s > b.at_s : a.order > b.order;
}

struct Later {
  bool operator()(const Event& a, const Event& b) const { return later(a, b); }
};

// Of all ranks: a heap.
class EventHeap {
 public:
  bool empty() const { return events_.empty(); }
  const Event& top() const { return events_.front(); }

  template <typename... Fields>
  void push(Fields... fields) {
    events_.emplace_back(fields...);
    std::push_heap(events_.begin(), events_.end(), Later{});
  }

  Event pop() {
    const Event event = events_.front();
    std::pop_heap(events_.begin(), events_.end(), Later{});
    events_.pop_back();
    return event;
  }

 private:
  std::vector<Event> events_;
};

// Events that are found in the order of time, or nearly.
class EventLane {
 public:
  bool empty() const { return head_ == events_.size(); }
  const Event& top() const { return events_[head_]; }

  template <typename... Fields>
  void push(Fields... fields) {
    events_.emplace_back(fields...);
    for (std::size_t i = events_.size() - 1; i > head_ && later(events_[i - 1], events_[i]); --i) {
      std::swap(events_[i - 1], events_[i]);
    }
  }

  void drop() {
    if (++head_ == events_.size()) {
      events_.clear();
      head_ = 0;
    } else if (head_ == most_dropped) {
      events_.erase(events_.begin(), events_.begin() + static_cast<std::ptrdiff_t>(head_));
      head_ = 0;
    }
  }

 private:
  static constexpr std::size_t most_dropped = 128;  // before the rest moves up

  std::vector<Event> events_;  // from head_ on
  std::size_t head_ = 0;
};

// Of one rank: one message leaves at a time, the processor does one thing after the other, and the
// messages of its one sender come one behind the other.
class RankEvents {
 public:
  double next_s() const {
    double at_s = sent_.at_s;
    if (!landing_.empty()) at_s = std::min(at_s, landing_.top().at_s);
    if (!working_.empty()) at_s = std::min(at_s, working_.top().at_s);
    if (!others_.empty()) at_s = std::min(at_s, others_.top().at_s);
    return at_s;
  }

  template <typename... Fields>
  void push(What what, Fields... fields) {
    if (what == What::sent) {
      sent_ = Event(fields...);
    } else if (what == What::landed) {
      landing_.push(fields...);
    } else if (what == What::summed || what == What::received) {
      working_.push(fields...);
    } else {
      others_.push(fields...);
    }
  }

  // next_s() must be finite.
  Event pop() {
    const Event* next = &sent_;
    if (!landing_.empty() && later(*next, landing_.top())) next = &landing_.top();
    if (!working_.empty() && later(*next, working_.top())) next = &working_.top();
    if (!others_.empty() && later(*next, others_.top())) return others_.pop();
    const Event event = *next;
    if (next == &sent_) {
      sent_.at_s = HUGE_VAL;
    } else if (event.what() == What::landed) {
      landing_.drop();
    } else {
      working_.drop();
    }
    return event;
  }

 private:
  Event sent_;  // at_s infinite: none
  EventLane landing_, working_;
  EventHeap others_;
};

}  // namespace patallreduce::pricing
