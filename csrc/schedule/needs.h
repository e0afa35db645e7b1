// What a rank's steps have to do with its caller's memory: which of them read its contribution,
// and which make its result. Executor, GPU programs and every simulator go by these.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "schedule/schedule.h"

namespace patallreduce::schedule {

// The segments that each rank's steps have written so far: a bit for each, since a simulation
// keeps those of 10,000 ranks.
class Written {
 public:
  explicit Written(int segments, int ranks = 1)
      : words_((static_cast<std::size_t>(segments) + 63) / 64),
        bits_(words_ * static_cast<std::size_t>(ranks)) {}

  // Whether some segment of the step (anything with a verb, first and last) has not been written:
  // there it sends, sums or replaces the rank's own contribution.
  template <typename AnyStep>
  bool misses(const AnyStep& step, std::int32_t rank = 0) const {
    const std::uint64_t* bits = &bits_[words_ * static_cast<std::size_t>(rank)];
    bool missing = false;
    for (std::int32_t s = step.first; s < step.last; ++s)
      missing |= (bits[s / 64] >> (s % 64) & 1) == 0;
    return missing;
  }

  template <typename AnyStep>
  void add(const AnyStep& step, std::int32_t rank = 0) {
    std::uint64_t* bits = &bits_[words_ * static_cast<std::size_t>(rank)];
    for (std::int32_t s = step.first; s < step.last; ++s)
      bits[s / 64] |= std::uint64_t(1) << (s % 64);
  }

 private:
  std::size_t words_;
  std::vector<std::uint64_t> bits_;
};

// Per step of one rank.
struct Needs {
  std::vector<char> arrival;    // it reads the contribution or makes the result: not before arrival
  std::vector<char> reads_own;  // it sends or sums a segment that no earlier step writes
  std::vector<char> last_write;  // no later step writes some segment of it: it makes the result
  std::vector<char> sent_later;  // a later step sends one of its segments
  // The result is there once these are done: the last writes, and the sends of what is never
  // written (a broadcast's root, a reduce's other ranks), after which the memory is the caller's.
  std::vector<char> result;
  std::int32_t torn = -1;  // one that is the last to write some of its segments, not all; -1: none
};

Needs needs_of(const Steps& steps, int segments);

}  // namespace patallreduce::schedule
