#include "gpu/device/arithmetic.h"

#include <utility>

#include "errors.h"

namespace patallreduce::gpu {

DeviceArithmetic::DeviceArithmetic(std::shared_ptr<const Device> device)
    : device_(std::move(device)), stream_(device_->create_stream()) {}

DeviceArithmetic::~DeviceArithmetic() { device_->destroy_stream(stream_); }

void DeviceArithmetic::combine(void* out, void* also, const void* received, const void* held,
                               std::size_t count, Dtype dtype, Op op, double scale) {
  queued_ = true;
  device_->reduction().combine(out, also, received, held, count, dtype, op, scale, stream_);
}

void DeviceArithmetic::scale_copy(void* out, const void* in, std::size_t count, Dtype dtype,
                                  double scale) {
  queued_ = true;
  device_->reduction().scale_copy(out, in, count, dtype, scale, stream_);
}

void DeviceArithmetic::divide(void* data, std::size_t count, Dtype dtype, std::int64_t divisor) {
  queued_ = true;
  device_->reduction().divide(data, count, dtype, divisor, stream_);
}

void DeviceArithmetic::copy(void* out, const void* in, std::size_t bytes) {
  queued_ = true;
  if (bytes > 0) device_->copy(out, in, bytes, stream_);
}

void DeviceArithmetic::finish() {
  if (!queued_) return;
  queued_ = false;
  device_->synchronise(stream_);
}

void* DeviceArithmetic::allocate(std::size_t bytes) { return device_->allocate(bytes); }

void DeviceArithmetic::release(void* memory) noexcept { device_->release(memory); }

void DeviceArithmetic::enter() noexcept {
  try {
    before_ = device_->make_current();
  } catch (const CudaError&) {
    before_ = device_->number();
  }
}

void DeviceArithmetic::leave() noexcept { device_->restore_current(before_); }

}  // namespace patallreduce::gpu
