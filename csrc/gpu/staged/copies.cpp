#include "gpu/staged/copies.h"

#include <chrono>
#include <thread>
#include <utility>

#include "clock.h"
#include "errors.h"

namespace patallreduce::gpu {

StagedCopies::StagedCopies(std::shared_ptr<const Device> device, bool direct)
    : device_(std::move(device)),
      direct_(direct),
      events_(*device_),
      pinned_(std::make_unique<PinnedPool>(*device_)) {
  if (direct_) return;
  out_ = device_->create_stream();
  back_ = device_->create_stream();
}

void StagedCopies::fetch(StagedCopy& copy, const void* home, std::size_t bytes, void* producer) {
  if (direct_) bytes = 0;
  copy.contribution = events_.take();
  copy.pinned = pinned_->take(bytes);
  device_->record(copy.contribution, producer);
  if (bytes == 0) return;
  device_->wait(out_, copy.contribution);
  device_->copy(copy.pinned.memory, home, bytes, out_);
  device_->record(copy.contribution, out_);
}

bool StagedCopies::is_fetched(StagedCopy& copy) {
  if (!device_->done(copy.contribution)) return false;
  events_.give(std::exchange(copy.contribution, nullptr));
  return true;
}

void StagedCopies::bring_back(StagedCopy& copy, void* home, std::size_t bytes) {
  copy.result = events_.take();
  device_->copy(home, copy.pinned.memory, bytes, back_);
  device_->record(copy.result, back_);
}

bool StagedCopies::is_back(const StagedCopy& copy) const { return device_->done(copy.result); }

void StagedCopies::end(StagedCopy& copy) {
  if (copy.result) events_.give(std::exchange(copy.result, nullptr));
  pinned_->give(std::exchange(copy.pinned, {}));
}

void StagedCopies::give_up(StagedCopy& copy) {
  void* const result = std::exchange(copy.result, nullptr);
  void* const contribution = std::exchange(copy.contribution, nullptr);
  given_up_.push_back({result ? result : contribution, std::exchange(copy.pinned, {})});
}

void StagedCopies::lose_memory(StagedCopy& copy) {
  pinned_->forget(std::exchange(copy.pinned, {}));
}

bool StagedCopies::has_ended(const GivenUp& copy, double until_s) const {
  if (!copy.event) return true;
  try {
    while (!device_->done(copy.event)) {
      if (now_s() >= until_s) return false;
      std::this_thread::sleep_for(std::chrono::microseconds(200));
    }
  } catch (const CudaError&) {  // nothing runs on that device any more
  }
  return true;
}

void StagedCopies::close(double until_s) {
  bool hangs = false;
  for (const GivenUp& copy : given_up_) {
    const bool ended = has_ended(copy, until_s);
    ended ? pinned_->give(copy.pinned) : pinned_->forget(copy.pinned);
    hangs = hangs || !ended;
    if (copy.event) events_.give(copy.event);
  }
  given_up_.clear();
  if (hangs) pinned_->abandon();
  events_.release();
  if (!direct_) {
    device_->destroy_stream(out_);
    device_->destroy_stream(back_);
  }
  pinned_ = nullptr;
}

}  // namespace patallreduce::gpu
