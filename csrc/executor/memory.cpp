#include "executor/memory.h"

namespace patallreduce::executor {

void Memory::set_device(std::unique_ptr<Arithmetic> device) {
  device_ = std::move(device);
  device_scratch_ = std::make_unique<Scratch>(limit_bytes_, *device_);
  has_device_ = true;
}

void Memory::release_device() {
  device_scratch_ = nullptr;
  device_ = nullptr;
}

Scratch* Memory::scratch_for(const Call& call) {
  return call.carrier == Carrier::device ? device_scratch_.get() : &host_;
}

std::size_t Memory::peak_bytes() const {
  return host_.peak_bytes() + (device_scratch_ ? device_scratch_->peak_bytes() : 0);
}

}  // namespace patallreduce::executor
