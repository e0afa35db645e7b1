#include "executor/engine.h"

#include <poll.h>
#include <sched.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>

#include "errors.h"

namespace patallreduce::executor {

using transport::Transport;

namespace {

constexpr double idle_before_posting_all_s = 1e-3;
constexpr double parked_s = 1e-3;  // how soon the engine's thread returns after a caller drove
constexpr int takeover_yields = 100;

}  // namespace

void raise(const Failure& failure) {
  switch (failure.kind) {
    case Kind::timeout:
      throw TransportTimeout(failure.what, failure.rank);
    case Kind::lost:
      throw PeerLostError(failure.what, failure.rank);
    case Kind::mismatch:
      throw MismatchError(failure.what, failure.rank);
    case Kind::schedule:
      throw ScheduleError(failure.what);
    case Kind::transport:
      break;
  }
  throw TransportError(failure.what, failure.rank);
}

Engine::Engine(std::shared_ptr<Transport> transport, EngineOptions options)
    : rank_(transport->rank()),
      ranks_(transport->ranks()),
      options_(std::move(options)),
      transport_(std::move(transport)),
      scratch_(options_.scratch_bytes, host_arithmetic()),
      liveness_(ranks_, rank_),
      lineup_(ranks_),
      greeted_(ranks_, 0),
      wake_fd_(eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC)) {}

Engine::~Engine() { close(0); }

void Engine::start(double timeout_s) {
  std::unique_lock driving(driving_);
  tell_all(Hello{1});
  greeted_[rank_] = 1;
  const auto missing = [this] { return std::find(greeted_.begin(), greeted_.end(), 0); };
  drive(driving, now_s() + timeout_s, [&] { return failure() || missing() == greeted_.end(); });
  if (!failure() && missing() != greeted_.end()) {
    const int rank = static_cast<int>(missing() - greeted_.begin());
    fail({Kind::timeout, rank,
          concat("rank ", rank_, ": rank ", rank, " did not connect over ", transport_->name(),
                 " within ", timeout_s, " s")},
         true);
  }
  if (const auto failed = failure()) raise(*failed);
  thread_ = std::thread([this] { thread_main(); });
}

std::shared_ptr<Ticket> Engine::submit(void* data, Call call, double timeout_s) {
  return submit({data, std::move(call), timeout_s, {}, false, {}}, false);
}

std::shared_ptr<Ticket> Engine::submit_queued(void* data, Call call, double timeout_s) {
  return submit({data, std::move(call), timeout_s, {}, true, {}}, true);
}

std::shared_ptr<Ticket> Engine::submit_ahead(void* data, Call call, std::function<void()> on_done) {
  auto ticket = std::make_shared<Ticket>();
  ticket->coming = true;
  return submit({data, std::move(call), 0, std::move(ticket), false, {}}, false,
                std::move(on_done));
}

void Engine::come(Ticket& ticket, double timeout_s) {
  {
    std::lock_guard lock(inbox_mutex_);
    const auto found = std::find_if(inbox_.begin(), inbox_.end(), [&](const Submission& one) {
      return one.ticket.get() == &ticket;
    });
    if (found == inbox_.end()) return;
    found->timeout_s = timeout_s;
    ticket.arrival_s = now_s();
    ticket.coming = false;
    eventfd_write(wake_fd_, 1);
  }
  if (drivers_ == 0) unpark();
}

std::shared_ptr<Ticket> Engine::submit_on(std::shared_ptr<StreamQueue> queue, void* data, Call call,
                                          double timeout_s, std::function<void()> on_done) {
  return submit({data, std::move(call), timeout_s, {}, false, std::move(queue)}, true,
                std::move(on_done));
}

void Engine::set_device(std::unique_ptr<Arithmetic> device) {
  std::lock_guard lock(driving_);
  PATR_CHECK(!closed_, TransportError, "rank ", rank_, ": the communicator is closed");
  PATR_CHECK(!device_, std::invalid_argument, "rank ", rank_,
             ": expected one GPU per communicator, got a second one");
  device_ = std::move(device);
  device_scratch_ = std::make_unique<Scratch>(options_.scratch_bytes, *device_);
  has_device_ = true;
}

Scratch* Engine::scratch_for(const Call& call) {
  return call.carrier == Carrier::device ? device_scratch_.get() : &scratch_;
}

void Engine::check(const Call& call) { check(call, nullptr); }

// A ScheduleError belongs to the caller.
void Engine::check(const Call& call, StreamQueue* queue) {
  PATR_CHECK(call.carrier != Carrier::device || has_device_, std::invalid_argument, "rank ", rank_,
             ": expected an engine that was given a GPU to sum on, got a call carried by ",
             name(call.carrier), " for one that was not");
  PATR_CHECK((call.carrier == Carrier::streams) == (queue != nullptr), std::invalid_argument,
             "rank ", rank_, ": a call carried by ", name(call.carrier),
             queue ? " was given" : " needs", " streams");
  if (!queue) {
    program(call.key, rank_);
    return;
  }
  PATR_CHECK(!options_.steps_source.dynamic(call.key), ScheduleError, "expected on rank ", rank_,
             " an algorithm whose order is known before ranks arrive, since streams are given "
             "their work beforehand; got ",
             call.key.algorithm);
  queue->prepare(call.key);
}

std::shared_ptr<Ticket> Engine::submit(Submission submission, bool wake,
                                       std::function<void()> on_done) {
  check(submission.call, submission.stream_queue.get());
  const bool queued = submission.queued;
  if (!submission.ticket) submission.ticket = std::make_shared<Ticket>();
  const std::shared_ptr<Ticket> ticket = submission.ticket;
  ticket->on_done = std::move(on_done);
  ticket->arrival_s = now_s();
  bool refused = false;  // once it is in the inbox, its being done is for the driver to tell
  {
    std::lock_guard lock(inbox_mutex_);
    ticket->seq = next_seq_++;
    if (failure_) {
      refused = true;
      ticket->failure = failure_;
      ticket->done = true;
    } else {
      inbox_.push_back(std::move(submission));
      if (wake) eventfd_write(wake_fd_, 1);
    }
  }
  if (refused) {
    if (queued) {
      std::lock_guard lock(done_mutex_);
      done_.push_back(ticket);
      done_changed_.notify_all();
    }
  } else if (wake) {
    if (drivers_ == 0) unpark();
  }
  return ticket;
}

bool Engine::wait(const Ticket& ticket, double slice_s) {
  const auto done = [&] { return ticket.done.load(std::memory_order_acquire); };
  if (done()) return true;
  const double began_s = now_s();
  ++drivers_;
  bool pending;
  {
    std::unique_lock driving(driving_, std::defer_lock);
    drive(driving, began_s + slice_s, [&] { return done() || stopping_; });
    pending = !pending_.empty();
  }
  // After a short drive another call is likely, and will take what is left along; the engine's
  // thread comes back by itself soon.
  const bool long_drive = now_s() > began_s + parked_s / 2;
  if (--drivers_ == 0 && (closed_ || (pending && long_drive))) unpark();
  return done();
}

// Turns until `done`, or `until_s` has passed. Ends with the lock held.
template <typename Done>
void Engine::drive(std::unique_lock<std::mutex>& driving, double until_s, Done done) {
  for (;;) {
    if (!driving.owns_lock()) take_over(driving);
    if (done()) return;
    if (turn()) continue;
    const double left_s = until_s - now_s();
    if (left_s <= 0) return;
    rest(std::min(left_s, longest_rest_s), driving);
  }
}

// The engine's thread leaves within a turn: shorter than falling asleep and being woken.
void Engine::take_over(std::unique_lock<std::mutex>& driving) {
  for (int i = 0; i < takeover_yields; ++i) {
    if (driving.try_lock()) return;
    sched_yield();
  }
  driving.lock();
}

void Engine::unpark() {
  std::lock_guard lock(parking_mutex_);
  parking_changed_.notify_all();
}

std::shared_ptr<Ticket> Engine::next_done(double timeout_s) {
  std::unique_lock lock(done_mutex_);
  done_changed_.wait_for(lock, std::chrono::duration<double>(timeout_s),
                         [this] { return done_ended_ || !done_.empty(); });
  if (done_.empty()) return nullptr;
  auto ticket = done_.front();
  done_.pop_front();
  return ticket;
}

void Engine::thread_main() {
  std::unique_lock driving(driving_, std::defer_lock);
  while (!stopping_) {
    if (drivers_ > 0) {
      if (driving.owns_lock()) driving.unlock();
      std::unique_lock parking(parking_mutex_);
      parking_changed_.wait_for(parking, std::chrono::duration<double>(parked_s));
      continue;
    }
    if (!driving.owns_lock()) driving.lock();
    if (!turn()) rest(anything_pending() ? longest_rest_s : -1, driving);
  }
}

bool Engine::turn() {
  const Entered entered(device_.get());
  bool busy = false;
  try {
    if (tell_plans_end()) busy = true;
    if (take_submissions()) busy = true;
    transport_->progress(events_);
    if (!events_.empty()) {
      busy = true;
      handle(events_);
      events_.clear();
    }
    if (anything_pending()) {
      const double now = now_s();
      if (now >= next_check_s_) check_deadlines(now);
    } else {
      checked_s_ = 0;
    }
  } catch (const std::exception& error) {
    events_.clear();
    fail({Kind::transport, rank_, concat("rank ", rank_, ": ", error.what())}, true);
  }
  if (busy) idle_since_s_ = 0;
  return busy;
}

// Called after a turn without events: spins, then sleeps, at most `at_most_s` (< 0: for ever).
// Gives the lock up when it sleeps.
void Engine::rest(double at_most_s, std::unique_lock<std::mutex>& driving) {
  const double now = now_s();
  if (idle_since_s_ == 0) {
    idle_since_s_ = now;
    all_posted_ = false;
  }
  if (now < idle_since_s_ + options_.spin_s) {
    if (options_.shares_cores) sched_yield();
    return;
  }
  if (!all_posted_ && !pending_.empty()) {
    // A short idle is part of a busy exchange; a long one is a wait for a late rank: let
    // everything come. It also ends any wait that the window of receives could cause.
    if (now >= idle_since_s_ + idle_before_posting_all_s) {
      const Entered entered(device_.get());
      try {
        for (auto& [seq, pending] : pending_)
          if (pending.operation) pending.operation->post_receives(true);
      } catch (const std::exception& error) {  // no memory left
        fail({Kind::transport, rank_, concat("rank ", rank_, ": ", error.what())}, true);
      }
      all_posted_ = true;
      return;
    }
    at_most_s = idle_before_posting_all_s;
  }
  if (!transport_->arm()) return;
  pollfd fds[8];
  nfds_t count = 0;
  fds[count++] = {wake_fd_, POLLIN, 0};
  for (const int fd : transport_->event_fds()) fds[count++] = {fd, POLLIN, 0};
  driving.unlock();
  const timespec limit{static_cast<time_t>(at_most_s),
                       static_cast<long>((at_most_s - static_cast<time_t>(at_most_s)) * 1e9)};
  ppoll(fds, count, at_most_s < 0 ? nullptr : &limit, nullptr);
  if (fds[0].revents & POLLIN) {
    eventfd_t value;
    eventfd_read(wake_fd_, &value);
  }
}
void Engine::abort(const std::string& why) {
  abort(Failure{Kind::transport, rank_, concat("rank ", rank_, " aborted: ", why)});
}

void Engine::abort(Failure failure) {
  std::unique_lock driving(driving_);
  const Entered entered(device_.get());
  if (!closed_) fail(std::move(failure), true);
}

void Engine::close(double timeout_s) {
  {
    std::unique_lock driving(driving_);
    if (closed_) return;
    closed_ = true;
    const auto sending = [this] {
      std::lock_guard lock(inbox_mutex_);
      return !inbox_.empty() || unplanned_ ||
             std::any_of(pending_.begin(), pending_.end(),
                         [](const auto& entry) { return entry.second.ticket != nullptr; });
    };
    drive(driving, now_s() + timeout_s, [&] { return failure() || !sending(); });
    if (!failure()) {
      if (sending())
        fail({Kind::transport, rank_,
              concat("rank ", rank_, " closed its communicator with a collective pending")},
             true);
      else
        tell_all(Bye{called_});
    }
    if (!failure()) {
      const auto closed = std::make_shared<const Failure>(
          Failure{Kind::transport, rank_, "the communicator is closed"});
      std::deque<Submission> unstarted;
      {
        std::lock_guard lock(inbox_mutex_);
        failure_ = closed;
        std::swap(unstarted, inbox_);
      }
      refuse(unstarted, closed);
    }
    stopping_ = true;
  }
  eventfd_write(wake_fd_, 1);
  unpark();
  if (thread_.joinable()) thread_.join();
  {  // Callers in wait() leave within one rest.
    std::unique_lock lock(parking_mutex_);
    while (drivers_ > 0) parking_changed_.wait_for(lock, std::chrono::duration<double>(parked_s));
  }
  {
    std::lock_guard lock(done_mutex_);
    done_ended_ = true;
    done_changed_.notify_all();
  }
  std::unique_lock driving(driving_);
  {
    const Entered entered(device_.get());
    transport_->close(std::min(timeout_s, 2.0));
    pending_.clear();
    failed_pending_.clear();
  }
  device_scratch_.reset();
  device_.reset();
  std::lock_guard lock(inbox_mutex_);  // a monitor may still bring plans
  ::close(wake_fd_);
  wake_fd_ = -1;
}

std::shared_ptr<const Failure> Engine::failure() const {
  std::lock_guard lock(inbox_mutex_);
  return failure_;
}

std::size_t Engine::scratch_peak_bytes() {
  std::lock_guard lock(driving_);
  return scratch_.peak_bytes() + (device_scratch_ ? device_scratch_->peak_bytes() : 0);
}

}  // namespace patallreduce::executor
