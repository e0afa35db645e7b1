#include "gpu/staged/staging.h"

#include <algorithm>
#include <chrono>
#include <utility>

#include "clock.h"
#include "errors.h"
#include "gpu/device/device_arithmetic.h"

namespace patallreduce::gpu {

using executor::Call;
using executor::Carrier;
using executor::Engine;
using executor::raise;

namespace {

// An event is seen this much late at most; a wait of long is looked at more seldom.
constexpr double shortest_pause_s = 20e-6;
constexpr double longest_pause_s = 200e-6;
// For copies that are under way when everything is closed.
constexpr double least_settling_s = 0.1;

std::chrono::duration<double> seconds(double s) { return std::chrono::duration<double>(s); }

}  // namespace

void Staging::Bell::ring() {
  std::lock_guard lock(mutex_);
  rung_ = true;
  changed_.notify_all();
}

void Staging::Bell::wait(double at_most_s) {
  std::unique_lock lock(mutex_);
  const auto rung = [this] { return rung_; };
  if (at_most_s < 0)
    changed_.wait(lock, rung);
  else
    changed_.wait_for(lock, seconds(at_most_s), rung);
  rung_ = false;
}

Staging::Staging(std::shared_ptr<Engine> engine, std::shared_ptr<const StreamDevice> device,
                 bool direct)
    : engine_(std::move(engine)),
      device_(std::move(device)),
      direct_(direct),
      pinned_(std::make_unique<PinnedPool>(*device_)) {
  if (direct_) {
    engine_->set_device(std::make_unique<DeviceArithmetic>(device_));
  } else {
    out_ = device_->create_stream();
    back_ = device_->create_stream();
  }
  thread_ = std::thread([this] { serve(); });
}

Staging::~Staging() { close(0); }

std::shared_ptr<StagedTicket> Staging::submit(void* home, Call call, void* producer,
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
    ticket->contribution = take_event();
    const std::size_t bytes = direct_ ? 0 : ticket->call.bytes();
    ticket->pinned = pinned_->take(bytes);
    device_->record(ticket->contribution, producer);
    if (bytes > 0) {
      device_->wait(out_, ticket->contribution);
      device_->copy(ticket->pinned.memory, home, bytes, out_);
      device_->record(ticket->contribution, out_);
    }
    void* const data = direct_ ? home : ticket->pinned.memory;
    ticket->in_engine = engine_->submit_ahead(data, ticket->call, [bell = bell_] { bell->ring(); });
  } catch (...) {
    fail(std::current_exception());
    fail(*ticket);
    throw;
  }
  in_flight_.push_back(ticket);
  if (queued) untold_.push_back(ticket);
  lock.unlock();
  bell_->ring();
  return ticket;
}

void Staging::serve() {
  double pause_s = shortest_pause_s;
  Lock lock(mutex_);
  while (!closed_) {
    const bool moved = look();
    if (moved) changed_.notify_all();
    // The engine's bell ends a wait for the engine.
    const bool looks_at_events =
        std::any_of(in_flight_.begin(), in_flight_.end(),
                    [](const auto& ticket) { return ticket->phase.load() != Phase::running; });
    pause_s = moved ? shortest_pause_s : std::min(1.5 * pause_s, longest_pause_s);
    lock.unlock();
    bell_->wait(looks_at_events ? pause_s : -1);
    lock.lock();
  }
}

// Whether anything has changed.
bool Staging::look() {
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

bool Staging::advance(StagedTicket& ticket) {
  switch (ticket.phase.load()) {
    case Phase::coming:
      if (failure_) std::rethrow_exception(failure_);
      if (device_->done(ticket.contribution)) {
        start(ticket);
        return true;
      }
      check_deadline(ticket);
      return false;
    case Phase::running:
      if (ticket.in_engine->done.load(std::memory_order_acquire)) {
        take_back(ticket);
        return true;
      }
      check_deadline(ticket);
      return false;
    case Phase::returning:
      if (!device_->done(ticket.result)) return false;
      finish(ticket);
      return true;
    default:
      return false;
  }
}

// Of a call that waits for a contribution, its own or that of one before it. The others' deadlines
// are the engine's.
void Staging::check_deadline(const StagedTicket& ticket) {
  if (now_s() < ticket.deadline_s) return;
  for (const auto& first : in_flight_) {
    if (first->number > ticket.number) return;
    if (first->phase.load() != Phase::coming) continue;
    throw TransportTimeout(
        concat("rank ", engine_->rank(), "'s own contribution to collective ", first->number, " (",
               describe(first->call), ") has not come within ", ticket.timeout_s, " s"),
        engine_->rank());
  }
}

void Staging::start(StagedTicket& ticket) {
  free_events_.push_back(std::exchange(ticket.contribution, nullptr));
  ticket.arrived_s = now_s();
  engine_->mark_ready(*ticket.in_engine, std::max(ticket.deadline_s - ticket.arrived_s, 0.0));
  ticket.phase = Phase::running;
}

void Staging::take_back(StagedTicket& ticket) {
  if (ticket.in_engine->failure) raise(*ticket.in_engine->failure);
  if (!ticket.pinned.memory) return finish(ticket);
  ticket.result = take_event();
  device_->copy(ticket.home, ticket.pinned.memory, ticket.call.bytes(), back_);
  device_->record(ticket.result, back_);
  ticket.phase = Phase::returning;
}

void Staging::finish(StagedTicket& ticket) {
  if (ticket.result) free_events_.push_back(std::exchange(ticket.result, nullptr));
  pinned_->give(std::exchange(ticket.pinned, {}));
  ticket.finished_s = now_s();
  ticket.phase = Phase::done;
}

// The engine ends what it has; look() takes that up, and the results that were there before.
void Staging::fail(std::exception_ptr failure) {
  if (failure_) return;
  failure_ = failure;
  engine_->abort(failure);
  bell_->ring();
}

void Staging::fail(StagedTicket& ticket) {
  void* const event = std::exchange(ticket.result, nullptr);
  void* const other = std::exchange(ticket.contribution, nullptr);
  leftovers_.push_back({event ? event : other, std::exchange(ticket.pinned, {})});
  ticket.failure = failure_;
  ticket.finished_s = now_s();
  ticket.phase = Phase::failed;
}

bool Staging::reaches(const StagedTicket& ticket, Phase phase, double slice_s) {
  Lock lock(mutex_);
  const bool reached =
      changed_.wait_for(lock, seconds(slice_s), [&] { return ticket.phase.load() >= phase; });
  ticket.check();
  return reached;
}

bool Staging::joinable(const StagedTicket& ticket, double slice_s) {
  return reaches(ticket, Phase::returning, slice_s);
}

bool Staging::wait(const StagedTicket& ticket, double slice_s) {
  return reaches(ticket, Phase::done, slice_s);
}

void Staging::join(const StagedTicket& ticket, void* stream) {
  Lock lock(mutex_);
  ticket.check();
  if (ticket.result) device_->wait(stream, ticket.result);
}

std::shared_ptr<StagedTicket> Staging::next_done(double timeout_s) {
  Lock lock(mutex_);
  const auto ready = [this] {
    return !untold_.empty() && untold_.front()->phase.load() >= Phase::returning;
  };
  changed_.wait_for(lock, seconds(timeout_s), [&] { return closed_ || ready(); });
  if (!ready()) return nullptr;
  auto ticket = std::move(untold_.front());
  untold_.pop_front();
  return ticket;
}

void Staging::abort(const std::string& why) {
  const int rank = engine_->rank();
  Lock lock(mutex_);
  if (closed_) return;
  fail(std::make_exception_ptr(TransportError(concat("rank ", rank, " aborted: ", why), rank)));
}

void Staging::close(double timeout_s) {
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
  bell_->ring();
  thread_.join();
  lock.lock();
  for (const auto& ticket : in_flight_) {  // the GPU hangs, or the engine is being closed
    if (ticket->phase.load() == Phase::running) pinned_->forget(std::exchange(ticket->pinned, {}));
    fail(*ticket);
  }
  in_flight_.clear();
  changed_.notify_all();
  settle_leftovers(std::max(deadline_s, now_s() + least_settling_s));
  for (void* event : free_events_) device_->destroy_event(event);
  free_events_.clear();
  event_count_ = 0;
  if (!direct_) {
    device_->destroy_stream(out_);
    device_->destroy_stream(back_);
  }
  pinned_ = nullptr;
}

void Staging::settle_leftovers(double until_s) {
  bool hangs = false;
  for (const Leftover& leftover : leftovers_) {
    bool done = leftover.event == nullptr;
    try {
      while (!done && !(done = device_->done(leftover.event)) && now_s() < until_s)
        std::this_thread::sleep_for(seconds(longest_pause_s));
    } catch (const CudaError&) {  // nothing runs on that device any more
      done = true;
    }
    if (done)
      pinned_->give(leftover.pinned);
    else
      pinned_->forget(leftover.pinned);
    hangs = hangs || !done;
    if (leftover.event) free_events_.push_back(leftover.event);
  }
  leftovers_.clear();
  if (hangs) pinned_->abandon();
}

void* Staging::take_event() {
  if (free_events_.empty()) {
    free_events_.push_back(device_->create_event());
    ++event_count_;
  }
  void* const event = free_events_.back();
  free_events_.pop_back();
  return event;
}

std::size_t Staging::memory_bytes() {
  Lock lock(mutex_);
  return pinned_ ? pinned_->bytes() : 0;
}

std::size_t Staging::events() {
  Lock lock(mutex_);
  return event_count_;
}

}  // namespace patallreduce::gpu
