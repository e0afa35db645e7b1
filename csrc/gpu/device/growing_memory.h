// A GPU's memory that grows with what is asked of it, while what was there before is still used.
// Not thread-safe.
#pragma once

#include <cstddef>
#include <vector>

#include "gpu/device/device.h"

namespace patallreduce::gpu {

class GrowingMemory {
 public:
  explicit GrowingMemory(const Device& device) : device_(device) {}
  GrowingMemory(const GrowingMemory&) = delete;

  // From here on the memory has this many bytes at least, perhaps at another address.
  void provide(std::size_t bytes);
  std::byte* address() const { return blocks_.empty() ? nullptr : blocks_.back().memory; }

  // Gives everything back, for which CUDA waits for the whole device.
  void release() noexcept;
  // Keeps everything for ever: giving it back would wait for a device that hangs.
  void abandon() noexcept { blocks_.clear(); }

  std::size_t bytes() const;  // what was outgrown included

 private:
  struct Block {
    std::byte* memory;
    std::size_t bytes;
  };

  const Device& device_;
  std::vector<Block> blocks_;  // the last one is in use, the others are outgrown
};

}  // namespace patallreduce::gpu
