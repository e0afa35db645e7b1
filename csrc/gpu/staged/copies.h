// Copies of contributions to pinned memory, and of results back, each on a stream of their own;
// direct, there are none, and only events say when a contribution is there.
//
// Not thread-safe.
#pragma once

#include <cstddef>
#include <memory>
#include <vector>

#include "gpu/device/device.h"
#include "gpu/device/events.h"
#include "gpu/staged/pinned_pool.h"

namespace patallreduce::gpu {

// Of one collective.
struct StagedCopy {
  PinnedBlock pinned;            // none if there is nothing to copy
  void* contribution = nullptr;  // event behind it, until it has been seen
  void* result = nullptr;        // event behind the copy back, until that has been seen
};

class StagedCopies {
 public:
  StagedCopies(std::shared_ptr<const Device> device, bool direct);

  // Copies `bytes` from `home`, behind what is queued on `producer`. `copy` is new; after a failure
  // it is to be given up.
  void fetch(StagedCopy& copy, const void* home, std::size_t bytes, void* producer);
  bool is_fetched(StagedCopy& copy);
  void bring_back(StagedCopy& copy, void* home, std::size_t bytes);
  bool is_back(const StagedCopy& copy) const;
  // Everything of it has been seen: its memory is used again.
  void end(StagedCopy& copy);
  // A failed collective's: something of it may still be under way.
  void give_up(StagedCopy& copy);
  // The engine may write to its memory for ever, which nobody gets any more.
  void lose_memory(StagedCopy& copy);

  // Waits until `until_s` for what was given up, then releases everything but memory that a stream
  // which never gets there may still write to.
  void close(double until_s);

  std::size_t memory_bytes() const { return pinned_ ? pinned_->bytes() : 0; }
  std::size_t events() const { return events_.count(); }

 private:
  struct GivenUp {
    void* event;
    PinnedBlock pinned;
  };

  bool has_ended(const GivenUp& copy, double until_s) const;

  const std::shared_ptr<const Device> device_;
  const bool direct_;
  void* out_ = nullptr;  // streams
  void* back_ = nullptr;
  EventPool events_;
  std::unique_ptr<PinnedPool> pinned_;  // null once closed
  std::vector<GivenUp> given_up_;
};

}  // namespace patallreduce::gpu
