#include "gpu/nccl/memory_uses.h"

#include <algorithm>

namespace patallreduce::gpu {

MemoryUses::MemoryUses(int segments, int lanes)
    : lanes_(lanes),
      sums_(segments, {-1, 0, -1, -1}),
      received_(std::size_t(segments) * memories * lanes, -1),
      sent_(received_) {
  static_assert(std::size_t(Memory::home) == 1);
}

void MemoryUses::add_groups(AwaitedGroups& awaited, std::int32_t segment, Memory memory,
                            bool overwritten) const {
  for (std::size_t lane = 0; lane < lanes_; ++lane) {
    const std::size_t at = begin(segment, memory) + lane;
    awaited[lane] = std::max(awaited[lane], received_[at]);
    if (overwritten) awaited[lane] = std::max(awaited[lane], sent_[at]);
  }
}

}  // namespace patallreduce::gpu
