// The thread that watches an executor: times, what has ended, and what has gone wrong.
#include <algorithm>
#include <chrono>

#include "clock.h"
#include "errors.h"
#include "gpu/nccl/executor.h"

namespace patallreduce::gpu {

namespace {

// How often the watcher looks: how exact times are. It delays errors, never a result.
constexpr auto watch_every = std::chrono::microseconds(500);
// With nothing in flight it looks for what has ended the other ranks alone: NCCL's end on this rank
// may be all that another one still waits for.
constexpr auto watch_idle_every = std::chrono::milliseconds(100);

}  // namespace

void StreamExecutor::watch() {
  std::unique_lock lock(mutex_);
  while (!closed_) {
    const bool idle = called_.empty() && in_flight_.empty();
    if (told_) {
      changed_.wait(lock);
    } else if (idle && !failure_) {
      changed_.wait_for(lock, watch_idle_every);
    } else if (!failure_) {
      changed_.wait_for(lock, watch_every);
    }
    if (closed_ || told_) continue;
    try {
      lock.unlock();
      owner_.check();
      lock.lock();
      if (!failure_ && !idle) look(now_s());
    } catch (...) {
      if (!lock.owns_lock()) lock.lock();
      fail(std::current_exception());
    }
    if (failure_ && !closed_) {
      told_ = true;
      const std::exception_ptr failure = failure_;
      lock.unlock();
      owner_.failed(failure);
      lock.lock();
    }
  }
}

void StreamExecutor::look(double now) {
  note_times(now);
  // Collectives end in the order in which they were queued.
  while (!in_flight_.empty()) {
    StreamTicket& first = *in_flight_.front();
    if (!has_drained(first)) break;
    retire(first);
    in_flight_.pop_front();
  }
  if (!suspicion_) {
    try {
      for (const Lane& lane : lanes_) lane.nccl->check();
    } catch (const TransportError&) {
      suspicion_ = std::current_exception();
      suspicion_s_ = now;
    }
  }
  if (suspicion_ && now >= suspicion_s_ + owner_.patience_s) std::rethrow_exception(suspicion_);
  check_deadlines(now);
}

bool StreamExecutor::has_drained(const StreamTicket& ticket) const {
  if (!device_->done(ticket.summed)) return false;
  for (void* const event : ticket.last_passed) {
    if (event && !device_->done(event)) return false;
  }
  return true;
}

void StreamExecutor::note_times(double now) {
  for (const auto* tickets : {&called_, &in_flight_}) {
    for (const auto& ticket : *tickets) {
      if (ticket->arrival_s == 0 && device_->done(ticket->arrival)) ticket->arrival_s = now;
      if (ticket->finish_s == 0 && ticket->queued && device_->done(ticket->result)) {
        ticket->finish_s = now;
      }
    }
  }
}

void StreamExecutor::retire(StreamTicket& ticket) {
  ticket.has_result = ticket.drained = true;
  const double now = now_s();
  if (ticket.arrival_s == 0) ticket.arrival_s = now;
  if (ticket.finish_s == 0) ticket.finish_s = now;
  const auto forget = [&](void*& event) {
    if (std::find(ticket.events.begin(), ticket.events.end(), event) != ticket.events.end()) {
      event = nullptr;
    }
  };
  for (Lane& lane : lanes_) forget(lane.last_passed);
  forget(last_summed_);
  free_events_.insert(free_events_.end(), ticket.events.begin(), ticket.events.end());
  ticket.events.clear();
  ticket.arrival = ticket.result = ticket.summed = nullptr;
  ticket.passed.clear();
  ticket.last_passed.clear();
}

}  // namespace patallreduce::gpu
