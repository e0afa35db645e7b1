#include "gpu/staged/pinned_pool.h"

namespace patallreduce::gpu {

namespace {

constexpr std::size_t grain_bytes = 4096;

}  // namespace

PinnedPool::~PinnedPool() {
  for (const auto& [bytes, memory] : free_) device_.release_pinned(memory);
}

PinnedBlock PinnedPool::take(std::size_t bytes) {
  if (bytes == 0) return {};
  const std::size_t rounded = (bytes + grain_bytes - 1) / grain_bytes * grain_bytes;
  const auto found = free_.lower_bound(rounded);
  if (found != free_.end() && found->first <= 2 * rounded) {
    const PinnedBlock block{found->second, found->first};
    free_.erase(found);
    return block;
  }
  const PinnedBlock block{device_.allocate_pinned(rounded), rounded};
  bytes_ += rounded;
  return block;
}

void PinnedPool::give(const PinnedBlock& block) {
  if (block.memory) free_.emplace(block.bytes, block.memory);
}

}  // namespace patallreduce::gpu
