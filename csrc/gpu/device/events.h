// A GPU's events, used again: making one is a call of CUDA's. Not thread-safe.
#pragma once

#include <cstddef>
#include <vector>

#include "gpu/device/device.h"

namespace patallreduce::gpu {

class EventPool {
 public:
  explicit EventPool(const Device& device) : device_(device) {}
  EventPool(const EventPool&) = delete;

  void* take() {
    if (free_.empty()) {
      free_.push_back(device_.create_event());
      ++count_;
    }
    void* const event = free_.back();
    free_.pop_back();
    return event;
  }
  void give(void* event) { free_.push_back(event); }

  // Destroys all events, which must have been given back.
  void release() noexcept {
    for (void* event : free_) device_.destroy_event(event);
    free_.clear();
    count_ = 0;
  }

  std::size_t count() const { return count_; }  // that exist, those in use too

 private:
  const Device& device_;
  std::vector<void*> free_;
  std::size_t count_ = 0;
};

}  // namespace patallreduce::gpu
