#include "gpu/nccl/executor.h"

#include <algorithm>
#include <chrono>
#include <utility>

#include "clock.h"
#include "errors.h"

namespace patallreduce::gpu {

namespace {

// How often the watcher looks: how exact times are. It delays errors, never a result.
constexpr auto watch_every = std::chrono::microseconds(500);
// With nothing in flight it looks for what has ended the other ranks alone: NCCL's end on this rank
// may be all that another one still waits for.
constexpr auto watch_idle_every = std::chrono::milliseconds(100);
// For NCCL to end what is queued, and itself: milliseconds, or for ever.
constexpr double teardown_s = 5.0;

void sleep_s(double seconds) {
  std::this_thread::sleep_for(std::chrono::duration<double>(seconds));
}

}  // namespace

StreamExecutor::StreamExecutor(std::unique_ptr<Device> device,
                               std::vector<std::unique_ptr<NcclCommunicator>> nccl,
                               StreamOwner owner)
    : owner_(std::move(owner)), collectives_(std::move(device), std::move(nccl)) {
  watcher_ = std::thread([this] { watch(); });
}

StreamExecutor::~StreamExecutor() { close(0); }

void StreamExecutor::connect(double timeout_s) {
  if (ranks() == 1) return;
  std::lock_guard lock(mutex_);
  PATR_CHECK(collectives_.none_in_flight(), std::invalid_argument, "rank ", rank(),
             ": connect comes before the first collective");
  try {
    collectives_.streams().connect(timeout_s);
  } catch (...) {
    fail(std::current_exception());
    throw;
  }
}

std::shared_ptr<StreamTicket> StreamExecutor::submit(StreamCall call) {
  std::lock_guard lock(mutex_);
  if (failure_) std::rethrow_exception(failure_);
  PATR_CHECK(!closed_, TransportError, "rank ", rank(), ": the communicator is closed");
  auto ticket = collectives_.submit(call);
  changed_.notify_all();
  return ticket;
}

void StreamExecutor::queue(StreamTicket& ticket, std::shared_ptr<const StreamProgram> program) {
  std::lock_guard lock(mutex_);
  if (failure_) std::rethrow_exception(failure_);
  collectives_.check_fits(ticket, *program);
  try {
    collectives_.queue(ticket, std::move(program));
  } catch (...) {
    fail(std::current_exception());
    throw;
  }
  changed_.notify_all();
}

void StreamExecutor::withdraw(StreamTicket& ticket) noexcept {
  std::lock_guard lock(mutex_);
  collectives_.withdraw(ticket);
}

void StreamExecutor::join(StreamTicket& ticket, void* stream) {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [&] { return ticket.queued || failure_ || closed_; });
  if (failure_ && !ticket.has_result) std::rethrow_exception(failure_);
  PATR_CHECK(ticket.queued, TransportError, "rank ", rank(), ": the communicator is closed");
  if (!ticket.drained) collectives_.streams().device->wait(stream, ticket.result);
}

bool StreamExecutor::finds_result(StreamTicket& ticket) {
  return failure_ ? ticket.has_result : collectives_.finds_result(ticket);
}

bool StreamExecutor::wait(StreamTicket& ticket, double slice_s) {
  const double until_s = now_s() + slice_s;
  for (double pause_s = 20e-6;; pause_s = std::min(2 * pause_s, 1e-3)) {
    {
      std::lock_guard lock(mutex_);
      if (finds_result(ticket)) return true;
      if (failure_) std::rethrow_exception(failure_);
    }
    const double left_s = until_s - now_s();
    if (left_s <= 0) return false;
    sleep_s(std::min(pause_s, left_s));
  }
}

void StreamExecutor::throw_if_failed() {
  std::lock_guard lock(mutex_);
  if (failure_) std::rethrow_exception(failure_);
}

bool StreamExecutor::failed() {
  std::lock_guard lock(mutex_);
  return failure_ != nullptr;
}

// Results that were there before are right; what comes now may be anything.
void StreamExecutor::fail(std::exception_ptr failure) noexcept {
  if (failure_) return;
  try {
    collectives_.find_results();
  } catch (...) {  // the device itself is what failed
  }
  failure_ = std::move(failure);
  changed_.notify_all();
  teardown_ = collectives_.streams().tear_down();
}

void StreamExecutor::watch() {
  std::unique_lock lock(mutex_);
  while (!closed_) {
    const bool idle = collectives_.empty();
    if (owner_knows_) {
      changed_.wait(lock);
    } else if (idle && !failure_) {
      changed_.wait_for(lock, watch_idle_every);
    } else if (!failure_) {
      changed_.wait_for(lock, watch_every);
    }
    if (closed_ || owner_knows_) continue;
    try {
      lock.unlock();
      owner_.check();
      lock.lock();
      if (!failure_ && !idle) collectives_.look(now_s(), owner_.patience_s);
    } catch (...) {
      if (!lock.owns_lock()) lock.lock();
      fail(std::current_exception());
    }
    if (failure_ && !closed_) {
      owner_knows_ = true;
      const std::exception_ptr failure = failure_;
      lock.unlock();
      owner_.failed(failure);
      lock.lock();
    }
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
  while (!collectives_.empty() && !failure_ && now_s() < deadline_s) {
    lock.unlock();
    sleep_s(1e-3);
    lock.lock();
  }
  if (closed_) return;
  if (!collectives_.empty() && !failure_) {
    fail(std::make_exception_ptr(TransportError(
        concat("rank ", rank(), " closed while collectives were in flight"), rank())));
  }
  closed_ = true;
  changed_.notify_all();
  const std::exception_ptr untold = owner_knows_ ? nullptr : failure_;
  lock.unlock();
  watcher_.join();
  if (untold) owner_.failed(untold);  // the other ranks wait for what ends here
  lock.lock();
  const bool failed = failure_ != nullptr;
  if (!failed) finish_nccl(deadline_s);
  const bool ended = teardown_ && teardown_->wait(teardown_s);
  collectives_.release(failed && !ended);
}

void StreamExecutor::finish_nccl(double deadline_s) noexcept {
  for (Lane& lane : collectives_.streams().lanes) {
    try {
      lane.nccl->finish(std::max(deadline_s, now_s() + 1));
    } catch (const std::exception&) {
      // The others left, or CUDA did: nothing is in flight that could be lost.
    }
  }
  teardown_ = collectives_.streams().tear_down();
}

std::size_t StreamExecutor::memory_bytes() {
  std::lock_guard lock(mutex_);
  const Streams& streams = collectives_.streams();
  return streams.scratch.bytes() + streams.shadow.bytes();
}

std::size_t StreamExecutor::events() {
  std::lock_guard lock(mutex_);
  return collectives_.streams().events.count();
}

}  // namespace patallreduce::gpu
