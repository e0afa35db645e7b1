// What is going to happen, first by time, then in the order in which it was found.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace patallreduce {

// sent, summed, may_leave: of a rank's step; landed, received: of a channel's message.
enum class What : std::uint32_t { arrives, sent, landed, received, summed, may_leave };

struct Event {
  double at_s;
  std::uint64_t order;  // its number, then what
  std::int32_t where;   // rank or channel
  std::int32_t which;   // step or message

  What what() const { return static_cast<What>(order & 7); }
};

inline bool later(const Event& a, const Event& b) {
  return a.at_s != b.at_s ? a.at_s > b.at_s : a.order > b.order;
}

// Of all ranks: a heap.
class EventHeap {
 public:
  bool empty() const { return events_.empty(); }
  const Event& top() const { return events_.front(); }

  void push(const Event& event) {
    events_.push_back(event);
    std::push_heap(events_.begin(), events_.end(), later);
  }

  Event pop() {
    const Event event = events_.front();
    std::pop_heap(events_.begin(), events_.end(), later);
    events_.pop_back();
    return event;
  }

 private:
  std::vector<Event> events_;
};

// Of one rank: its own events are few, and messages from its one sender come nearly in order.
class RankEvents {
 public:
  double next_s() const {
    const double own_s = own_.empty() ? HUGE_VAL : own_.top().at_s;
    return head_ == inbox_.size() ? own_s : std::min(own_s, inbox_[head_].at_s);
  }

  void push(const Event& event) { own_.push(event); }

  void push_message(const Event& event) {
    inbox_.push_back(event);
    for (std::size_t i = inbox_.size() - 1; i > head_ && later(inbox_[i - 1], inbox_[i]); --i) {
      std::swap(inbox_[i - 1], inbox_[i]);
    }
  }

  // next_s() must be finite.
  Event pop() {
    if (head_ == inbox_.size() || (!own_.empty() && later(inbox_[head_], own_.top())))
      return own_.pop();
    const Event event = inbox_[head_++];
    if (head_ == inbox_.size()) {
      inbox_.clear();
      head_ = 0;
    } else if (head_ == most_read) {
      inbox_.erase(inbox_.begin(), inbox_.begin() + static_cast<std::ptrdiff_t>(head_));
      head_ = 0;
    }
    return event;
  }

 private:
  static constexpr std::size_t most_read = 128;  // kept before the rest moves up

  EventHeap own_;
  std::vector<Event> inbox_;  // from head_ on
  std::size_t head_ = 0;
};

}  // namespace patallreduce
