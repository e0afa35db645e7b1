// How an executor fails and ends, so that nobody waits for ever.
#include <algorithm>
#include <chrono>

#include "clock.h"
#include "errors.h"
#include "gpu/nccl/executor.h"

namespace patallreduce::gpu {

namespace {

// For NCCL to end what is queued, and itself: milliseconds, or for ever.
constexpr double ending_s = 5.0;

}  // namespace

// Results that were there before are right; what comes now may be anything.
void StreamExecutor::fail(std::exception_ptr failure) noexcept {
  if (failure_) return;
  try {
    for (const auto& ticket : in_flight_) finds_result(*ticket);
  } catch (...) {  // the device itself is what failed
  }
  failure_ = std::move(failure);
  changed_.notify_all();
  end_nccl();
}

void StreamExecutor::end_nccl() noexcept {
  try {
    std::vector<Nccl*> all;
    for (Lane& lane : lanes_) all.push_back(lane.nccl.get());
    ending_ = Nccl::end(all);
  } catch (const std::exception&) {  // no memory, or no more threads
  }
}

void StreamExecutor::abort(std::exception_ptr failure) {
  std::lock_guard lock(mutex_);
  fail(std::move(failure));
}

void StreamExecutor::close(double timeout_s) {
  const double deadline_s = now_s() + timeout_s;
  std::unique_lock lock(mutex_);
  if (closed_) return;
  const auto busy = [this] { return !called_.empty() || !in_flight_.empty(); };
  while (busy() && !failure_ && now_s() < deadline_s) {
    lock.unlock();
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
    lock.lock();
  }
  if (closed_) return;
  if (busy() && !failure_) {
    fail(std::make_exception_ptr(TransportError(
        concat("rank ", rank(), " closed while collectives were in flight"), rank())));
  }
  closed_ = true;
  changed_.notify_all();
  const std::exception_ptr untold = told_ ? nullptr : failure_;
  lock.unlock();
  watcher_.join();
  if (untold) owner_.failed(untold);  // the other ranks wait for what ends here
  lock.lock();
  const bool failed = failure_ != nullptr;
  if (!failed) {
    for (Lane& lane : lanes_) {
      try {
        lane.nccl->finish(std::max(deadline_s, now_s() + 1));
      } catch (const std::exception&) {
        // The others left, or CUDA did: nothing is in flight that could be lost.
      }
    }
    end_nccl();
  }
  const bool ended = ending_ && ending_->wait(ending_s);
  hangs_ = failed && !ended;
  release_all();
}

void StreamExecutor::release_all() noexcept {
  for (auto* tickets : {&called_, &in_flight_}) {
    for (const auto& ticket : *tickets) {
      for (void* event : ticket->events) device_->destroy_event(event);
      ticket->events.clear();
      ticket->drained = true;
    }
    tickets->clear();
  }
  for (void* event : free_events_) device_->destroy_event(event);
  free_events_.clear();
  event_count_ = 0;
  for (Lane& lane : lanes_) device_->destroy_stream(lane.messages);
  device_->destroy_stream(sums_);
  outgrown_.push_back(scratch_);
  outgrown_.push_back(shadow_);
  for (const Block& block : outgrown_) {
    if (block.memory && !hangs_) device_->release(block.memory);  // waits for the whole device
  }
  outgrown_.clear();
  scratch_ = shadow_ = {};
}

}  // namespace patallreduce::gpu
