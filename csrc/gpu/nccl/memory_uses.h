// While a program is compiled: which sums and groups touched each segment of home and shadow last.
#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "gpu/nccl/program.h"

namespace patallreduce::gpu {

class MemoryUses {
 public:
  MemoryUses(int segments, int lanes);

  // The stage whose sums touched it last, -1: none. The caller's contribution counts as stage 0.
  std::int32_t sums(std::int32_t segment, Memory memory) const {
    return sums_[segment][std::size_t(memory)];
  }
  void note_sums(std::int32_t segment, Memory memory, std::int32_t stage) {
    sums_[segment][std::size_t(memory)] = stage;
  }
  // A group of the stage sends from there, or receives into it.
  void note_group(std::int32_t segment, Memory memory, std::int32_t lane, bool sends,
                  std::int32_t stage) {
    (sends ? sent_ : received_)[begin(segment, memory) + lane] = stage;
  }
  // Adds the groups that received there and, if it is to be overwritten, those that send from
  // there.
  void add_groups(AwaitedGroups& awaited, std::int32_t segment, Memory memory,
                  bool overwritten) const;

 private:
  std::size_t begin(std::int32_t segment, Memory memory) const {
    return (std::size_t(segment) * memories + std::size_t(memory)) * lanes_;
  }

  static constexpr std::size_t memories = 4;
  const std::size_t lanes_;
  std::vector<std::array<std::int32_t, memories>> sums_;  // [segment][memory]
  std::vector<std::int32_t> received_, sent_;             // [segment][memory][lane]: by which stage
};

}  // namespace patallreduce::gpu
