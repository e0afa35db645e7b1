// An engine's sums in a GPU's memory: kernels on a stream of its own, for which finish() waits on
// the host, before anything is sent that they wrote.
//
// So the engine stays what it is: whatever it holds is there. The price is a launch and a wait per
// step, during which the engine does nothing else: large segments hide it, and
// nccl/executor.h does not pay it. Not thread-safe: its engine has a lock.
#pragma once

#include <memory>

#include "executor/arithmetic.h"
#include "gpu/device/device.h"

namespace patallreduce::gpu {

using executor::Arithmetic;
using reduction::Dtype;
using reduction::Op;

class DeviceArithmetic final : public Arithmetic {
 public:
  explicit DeviceArithmetic(std::shared_ptr<const Device> device);
  ~DeviceArithmetic() override;

  void combine(void* out, void* also, const void* received, const void* held, std::size_t count,
               Dtype dtype, Op op, double scale) override;
  void scale_copy(void* out, const void* in, std::size_t count, Dtype dtype, double scale) override;
  void divide(void* data, std::size_t count, Dtype dtype, std::int64_t divisor) override;
  void copy(void* out, const void* in, std::size_t bytes) override;
  void finish() override;

  void* allocate(std::size_t bytes) override;
  void release(void* memory) noexcept override;

  void enter() noexcept override;
  void leave() noexcept override;

 private:
  const std::shared_ptr<const Device> device_;
  void* const stream_;
  bool queued_ = false;  // something that nobody has waited for
  int before_ = 0;       // the device that was current
};

}  // namespace patallreduce::gpu
