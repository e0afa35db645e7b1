// Pinned memory of the host, used again: making it and giving it back makes CUDA wait for the
// device.
//
// A block serves what is at least half as large, so what is kept is at most about twice what was in
// use at once. Nothing is given back before the end. Not thread-safe.
#pragma once

#include <cstddef>
#include <map>

#include "gpu/device/device.h"

namespace patallreduce::gpu {

struct PinnedBlock {
  void* memory = nullptr;
  std::size_t bytes = 0;
};

class PinnedPool {
 public:
  explicit PinnedPool(const Device& device) : device_(device) {}
  ~PinnedPool();
  PinnedPool(const PinnedPool&) = delete;

  PinnedBlock take(std::size_t bytes);
  void give(const PinnedBlock& block);
  // For a block that something may write to for ever: it stays, and is nobody's.
  void forget(const PinnedBlock& block) { bytes_ -= block.bytes; }

  // Keeps all blocks for ever: giving them back would wait for a device that hangs.
  void abandon() { free_.clear(); }

  std::size_t bytes() const { return bytes_; }  // of all blocks, those in use too

 private:
  const Device& device_;
  std::multimap<std::size_t, void*> free_;  // by size
  std::size_t bytes_ = 0;
};

}  // namespace patallreduce::gpu
