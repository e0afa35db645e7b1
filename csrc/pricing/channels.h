// The messages on their way, by pair of ranks: which receive takes which send, where both ends
// come into sight at different times.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace patallreduce::pricing {

// From one rank to another; messages match by number. A message has a slot from when either end
// is known to when both are and it has landed.
class Channel {
 public:
  Channel(std::int32_t from, std::int32_t to) : from(from), to(to) {}

  struct Slot {
    std::int32_t receive = -1;         // the step that takes it, if known
    std::int32_t first = 0, last = 0;  // segments it carries, once it has been sent
    std::int32_t record = -1;          // of the send
    bool landed = false;
    bool free = false;
  };

  Slot& slot(std::int32_t number) {
    const auto needed = static_cast<std::size_t>(number - begin_) + 1;
    if (needed > slots_.size()) grow(needed);
    while (end_ <= number) at(end_++) = Slot{};
    return at(number);
  }

  void release(std::int32_t number) {
    at(number).free = true;
    while (begin_ < end_ && at(begin_).free) ++begin_;
  }

  std::int32_t from, to;
  std::int32_t sends = 0, receives = 0;  // messages so far in each end's program

 private:
  Slot& at(std::int32_t number) {
    return slots_[static_cast<std::size_t>(number) & (slots_.size() - 1)];
  }

  void grow(std::size_t needed) {
    std::size_t capacity = 2;
    while (capacity < needed) capacity *= 2;
    std::vector<Slot> larger(capacity);
    for (std::int32_t n = begin_; n < end_; ++n) {
      larger[static_cast<std::size_t>(n) & (capacity - 1)] = at(n);
    }
    slots_.swap(larger);
  }

  std::int32_t begin_ = 0, end_ = 0;
  std::vector<Slot> slots_;  // a ring of a power of two
};

// Channels by their ends: open addressing.
class Channels {
 public:
  Channels() : table_(64, -1) {}

  std::int32_t between(std::int32_t from, std::int32_t to) {
    for (std::size_t i = hash(from, to);; i = (i + 1) & (table_.size() - 1)) {
      if (table_[i] < 0) return add(i, from, to);
      const Channel& found = channels_[table_[i]];
      if (found.from == from && found.to == to) return table_[i];
    }
  }

  Channel& operator[](std::int32_t channel) { return channels_[channel]; }
  const std::vector<Channel>& all() const { return channels_; }

 private:
  std::size_t hash(std::int32_t from, std::int32_t to) const {
    const auto ends = static_cast<std::uint64_t>(from) << 32 | static_cast<std::uint32_t>(to);
    return (ends * 0x9e3779b97f4a7c15 >> 32) & (table_.size() - 1);
  }

  std::int32_t add(std::size_t i, std::int32_t from, std::int32_t to) {
    const auto channel = static_cast<std::int32_t>(channels_.size());
    channels_.emplace_back(from, to);
    table_[i] = channel;
    if (2 * channels_.size() > table_.size()) {
      table_.assign(2 * table_.size(), -1);
      for (std::int32_t n = 0; n <= channel; ++n) {
        std::size_t place = hash(channels_[n].from, channels_[n].to);
        while (table_[place] >= 0) place = (place + 1) & (table_.size() - 1);
        table_[place] = n;
      }
    }
    return channel;
  }

  std::vector<Channel> channels_;
  std::vector<std::int32_t> table_;
};

}  // namespace patallreduce::pricing
