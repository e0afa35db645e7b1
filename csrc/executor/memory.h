// The memory that a communicator's collectives work in: the processor's, and a GPU's once it has
// one.
#pragma once

#include <atomic>
#include <memory>

#include "executor/arithmetic.h"
#include "executor/call.h"
#include "executor/scratch.h"

namespace patallreduce::executor {

class Memory {
 public:
  // `limit_bytes`: of the scratch of one kind that stays mapped.
  explicit Memory(std::size_t limit_bytes) : limit_bytes_(limit_bytes) {}

  // Once.
  void set_device(std::unique_ptr<Arithmetic> device);
  void release_device();
  bool has_device() const { return has_device_; }       // from any thread
  Arithmetic* device() const { return device_.get(); }  // null: none
  // Null: nothing here sums in such memory.
  Scratch* scratch_for(const Call& call);
  std::size_t limit_bytes() const { return limit_bytes_; }
  std::size_t peak_bytes() const;  // so far

 private:
  const std::size_t limit_bytes_;
  Scratch host_{limit_bytes_, host_arithmetic()};
  std::unique_ptr<Arithmetic> device_;
  std::unique_ptr<Scratch> device_scratch_;
  std::atomic<bool> has_device_{false};
};

}  // namespace patallreduce::executor
