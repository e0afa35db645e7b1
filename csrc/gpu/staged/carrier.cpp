#include "gpu/staged/carrier.h"

#include <algorithm>
#include <chrono>
#include <utility>

#include "clock.h"
#include "errors.h"
#include "gpu/device/arithmetic.h"

namespace patallreduce::gpu {

using executor::Carrier;
using executor::raise;

namespace {

// An event is seen this much late at most; a wait of long is looked at more seldom.
constexpr double shortest_pause_s = 20e-6;
constexpr double longest_pause_s = 200e-6;
// For copies that are under way when everything is closed.
constexpr double least_settling_s = 0.1;

std::chrono::duration<double> seconds(double s) { return std::chrono::duration<double>(s); }

}  // namespace

StagedCarrier::StagedCarrier(std::shared_ptr<Engine> engine, std::shared_ptr<const Device> device,
                             bool direct)
    : engine_(std::move(engine)),
      device_(std::move(device)),
      direct_(direct),
      copies_(device_, direct) {
  if (direct_) engine_->set_device(std::make_unique<DeviceArithmetic>(device_));
  thread_ = std::thread([this] { serve(); });
}

StagedCarrier::~StagedCarrier() { close(0); }

std::shared_ptr<StagedTicket> StagedCarrier::submit(void* home, Call call, void* producer,
                                                    double timeout_s, bool queued) {
  const int rank = engine_->rank();
  PATR_CHECK(home != nullptr || call.count == 0, std::invalid_argument, "rank ", rank,
             ": expected memory for ", call.count, " elements, got none");
  call.carrier = direct_ ? Carrier::device : Carrier::host;
  engine_->check(call);

  Lock lock(mutex_);
  if (failure_) std::rethrow_exception(failure_);
  PATR_CHECK(!closing_, TransportError, "rank ", rank, ": the communicator is closed");
  if (const auto failed = engine_->failure()) raise(*failed);
  try {
    device_->refuse_capture(producer, rank);
  } catch (const CudaError&) {
    fail(std::current_exception());
    throw;
  }
  auto ticket = std::make_shared<StagedTicket>();
  ticket->call = std::move(call);
  ticket->home = home;
  ticket->number = next_number_++;
  ticket->timeout_s = timeout_s;
  ticket->deadline_s = now_s() + timeout_s;
  try {
    copies_.fetch(ticket->copy, home, ticket->call.bytes(), producer);
    void* const data = direct_ ? home : ticket->copy.pinned.memory;
    ticket->in_engine =
        engine_->submit_ahead(data, ticket->call, [wakeup = wakeup_] { wakeup->notify(); });
  } catch (...) {
    fail(std::current_exception());
    fail(*ticket);
    throw;
  }
  in_flight_.push_back(ticket);
  if (queued) unreported_.push_back(ticket);
  lock.unlock();
  wakeup_->notify();
  return ticket;
}

void StagedCarrier::serve() {
  double pause_s = shortest_pause_s;
  Lock lock(mutex_);
  while (!closed_) {
    const bool moved = look();
    if (moved) changed_.notify_all();
    // Whoever waits for the engine is notified by it.
    const bool looks_at_events =
        std::any_of(in_flight_.begin(), in_flight_.end(),
                    [](const auto& ticket) { return ticket->phase.load() != Phase::running; });
    pause_s = moved ? shortest_pause_s : std::min(1.5 * pause_s, longest_pause_s);
    lock.unlock();
    looks_at_events ? wakeup_->wait_for(pause_s) : wakeup_->wait();
    lock.lock();
  }
}

// Whether anything has changed.
bool StagedCarrier::look() {
  if (in_flight_.empty()) return false;
  bool moved = false;
  try {
    if (const auto failed = engine_->failure()) raise(*failed);
  } catch (...) {
    fail(std::current_exception());
  }
  for (const auto& ticket : in_flight_) {
    try {
      if (advance(*ticket)) moved = true;
    } catch (...) {
      fail(std::current_exception());
      fail(*ticket);
      moved = true;
    }
  }
  in_flight_.erase(
      std::remove_if(in_flight_.begin(), in_flight_.end(),
                     [](const auto& ticket) { return ticket->phase.load() >= Phase::done; }),
      in_flight_.end());
  return moved;
}

bool StagedCarrier::advance(StagedTicket& ticket) {
  switch (ticket.phase.load()) {
    case Phase::contributing:
      if (failure_) std::rethrow_exception(failure_);
      if (!copies_.is_fetched(ticket.copy)) {
        check_deadline(ticket);
        return false;
      }
      ticket.arrived_s = now_s();
      engine_->mark_ready(*ticket.in_engine, std::max(ticket.deadline_s - ticket.arrived_s, 0.0));
      ticket.phase = Phase::running;
      return true;
    case Phase::running:
      if (!ticket.in_engine->done.load(std::memory_order_acquire)) {
        check_deadline(ticket);
        return false;
      }
      if (ticket.in_engine->failure) raise(*ticket.in_engine->failure);
      if (ticket.copy.pinned.memory) {
        copies_.bring_back(ticket.copy, ticket.home, ticket.call.bytes());
        ticket.phase = Phase::returning;
      } else {
        finish(ticket);
      }
      return true;
    case Phase::returning:
      if (!copies_.is_back(ticket.copy)) return false;
      finish(ticket);
      return true;
    default:
      return false;
  }
}

// Of a call that waits for a contribution, its own or that of one before it. The others' deadlines
// are the engine's.
void StagedCarrier::check_deadline(const StagedTicket& ticket) {
  if (now_s() < ticket.deadline_s) return;
  for (const auto& first : in_flight_) {
    if (first->number > ticket.number) return;
    if (first->phase.load() != Phase::contributing) continue;
    throw TransportTimeout(
        concat("rank ", engine_->rank(), "'s own contribution to collective ", first->number, " (",
               describe(first->call), ") has not come within ", ticket.timeout_s, " s"),
        engine_->rank());
  }
}

void StagedCarrier::finish(StagedTicket& ticket) {
  copies_.end(ticket.copy);
  ticket.finished_s = now_s();
  ticket.phase = Phase::done;
}

// The engine ends what it has; look() takes that up, and the results that were there before.
void StagedCarrier::fail(std::exception_ptr failure) {
  if (failure_) return;
  failure_ = failure;
  engine_->abort(failure);
  wakeup_->notify();
}

void StagedCarrier::fail(StagedTicket& ticket) {
  copies_.give_up(ticket.copy);
  ticket.failure = failure_;
  ticket.finished_s = now_s();
  ticket.phase = Phase::failed;
}

bool StagedCarrier::reaches(const StagedTicket& ticket, Phase phase, double slice_s) {
  Lock lock(mutex_);
  const bool reached =
      changed_.wait_for(lock, seconds(slice_s), [&] { return ticket.phase.load() >= phase; });
  ticket.check();
  return reached;
}

bool StagedCarrier::joinable(const StagedTicket& ticket, double slice_s) {
  return reaches(ticket, Phase::returning, slice_s);
}

bool StagedCarrier::wait(const StagedTicket& ticket, double slice_s) {
  return reaches(ticket, Phase::done, slice_s);
}

void StagedCarrier::join(const StagedTicket& ticket, void* stream) {
  Lock lock(mutex_);
  ticket.check();
  if (ticket.copy.result) device_->wait(stream, ticket.copy.result);
}

std::shared_ptr<StagedTicket> StagedCarrier::next_done(double timeout_s) {
  Lock lock(mutex_);
  const auto ready = [this] {
    return !unreported_.empty() && unreported_.front()->phase.load() >= Phase::returning;
  };
  changed_.wait_for(lock, seconds(timeout_s), [&] { return closed_ || ready(); });
  if (!ready()) return nullptr;
  auto ticket = std::move(unreported_.front());
  unreported_.pop_front();
  return ticket;
}

void StagedCarrier::abort(const std::string& why) {
  const int rank = engine_->rank();
  Lock lock(mutex_);
  if (closed_) return;
  fail(std::make_exception_ptr(TransportError(concat("rank ", rank, " aborted: ", why), rank)));
}

void StagedCarrier::close(double timeout_s) {
  const double deadline_s = now_s() + timeout_s;
  Lock lock(mutex_);
  if (closing_) return;
  closing_ = true;
  const auto ended = [this] { return in_flight_.empty(); };
  if (!changed_.wait_for(lock, seconds(timeout_s), ended)) {
    const int rank = engine_->rank();
    fail(std::make_exception_ptr(TransportError(
        concat("rank ", rank, " closed its communicator with a collective pending"), rank)));
    changed_.wait_for(lock, seconds(least_settling_s), ended);
  }
  closed_ = true;
  lock.unlock();
  wakeup_->notify();
  thread_.join();
  lock.lock();
  for (const auto& ticket : in_flight_) {  // the GPU hangs, or the engine is being closed
    if (ticket->phase.load() == Phase::running) copies_.lose_memory(ticket->copy);
    fail(*ticket);
  }
  in_flight_.clear();
  changed_.notify_all();
  copies_.close(std::max(deadline_s, now_s() + least_settling_s));
}

std::size_t StagedCarrier::memory_bytes() {
  Lock lock(mutex_);
  return copies_.memory_bytes();
}

std::size_t StagedCarrier::events() {
  Lock lock(mutex_);
  return copies_.events();
}

}  // namespace patallreduce::gpu
