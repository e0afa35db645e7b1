#include "gpu/device/growing_memory.h"

namespace patallreduce::gpu {

// What is outgrown may still be in use, and giving it back would wait for the device. Powers of two
// keep it smaller than what took its place.
//
// Allocating may wait for the device, too, whose kernels may wait for other ranks. That wait ends:
// all that this rank has queued then belongs to earlier collectives (or is the caller's, and waits
// for those at most), nothing of this one is half queued, and ranks queue collectives in one order.
// So of the lowest collective that is not over everywhere, a rank that has yet to queue it has only
// collectives on its device that are over, and its own allocation returns.
void GrowingMemory::provide(std::size_t bytes) {
  if (bytes <= (blocks_.empty() ? 0 : blocks_.back().bytes)) return;
  std::size_t rounded = 1 << 16;
  while (rounded < bytes) rounded *= 2;
  blocks_.push_back({static_cast<std::byte*>(device_.allocate(rounded)), rounded});
}

void GrowingMemory::release() noexcept {
  for (const Block& block : blocks_) device_.release(block.memory);
  blocks_.clear();
}

std::size_t GrowingMemory::bytes() const {
  std::size_t all = 0;
  for (const Block& block : blocks_) all += block.bytes;
  return all;
}

}  // namespace patallreduce::gpu
