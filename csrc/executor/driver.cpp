#include "executor/driver.h"

#include <poll.h>
#include <sched.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <chrono>

#include "errors.h"

namespace patallreduce::executor {

namespace {

constexpr double parked_s = 1e-3;  // how soon the thread returns after a caller drove
constexpr int takeover_yields = 100;

}  // namespace

Driver::Driver(Driven& driven, Transport& transport, double spin_s, bool shares_cores)
    : driven_(driven),
      transport_(transport),
      event_fds_(transport.event_fds()),
      spin_s_(spin_s),
      shares_cores_(shares_cores),
      wake_fd_(eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC)) {
  PATR_CHECK(wake_fd_ >= 0, TransportError, "rank ", transport.rank(),
             ": no file descriptor left to wake a thread by");
}

Driver::~Driver() { join(); }

void Driver::start_thread() {
  thread_ = std::thread([this] { run(); });
}

void Driver::wake() {
  std::lock_guard lock(parking_mutex_);
  if (wake_fd_ >= 0) eventfd_write(wake_fd_, 1);
  if (callers_ == 0) parking_changed_.notify_all();
}

void Driver::join() {
  end();
  wake();
  if (thread_.joinable()) thread_.join();
  while (callers_ > 0) park();           // they leave within one rest
  std::lock_guard lock(parking_mutex_);  // somebody may still wake it
  if (wake_fd_ >= 0) close(wake_fd_);
  wake_fd_ = -1;
}

void Driver::run() {
  Lock driving(mutex_, std::defer_lock);
  while (!ended_) {
    if (callers_ > 0) {
      if (driving.owns_lock()) driving.unlock();
      park();
      continue;
    }
    if (!driving.owns_lock()) driving.lock();
    if (!ended_ && !turn()) rest(-1, driving);
  }
}

bool Driver::turn() {
  const bool busy = driven_.turn();
  if (busy) idle_since_s_ = 0;
  return busy;
}

// Called after a turn without events: spins, then sleeps, at most `at_most_s` (< 0, on the thread:
// for ever). Gives the lock up when it sleeps. While ranks compute the thread has no core to
// itself, and looking at sockets takes more of one than being woken.
void Driver::rest(double at_most_s, Lock& driving) {
  const double now = now_s();
  if (idle_since_s_ == 0) idle_since_s_ = now;
  const bool waits_for_it = at_most_s >= 0;  // a caller: it has nothing else to do
  const bool spins = waits_for_it || !transport_.only_sockets();
  if (spins && now < idle_since_s_ + spin_s_) {
    if (shares_cores_) sched_yield();
    return;
  }
  double rest_s = driven_.rest_s(now - idle_since_s_);
  if (rest_s == 0 || !transport_.arm()) return;
  if (rest_s < 0 || (at_most_s >= 0 && at_most_s < rest_s)) rest_s = at_most_s;
  pollfd fds[8];
  nfds_t count = 0;
  fds[count++] = {wake_fd_, POLLIN, 0};
  for (const int fd : event_fds_) fds[count++] = {fd, POLLIN, 0};
  driving.unlock();
  const timespec limit{static_cast<time_t>(rest_s),
                       static_cast<long>((rest_s - static_cast<time_t>(rest_s)) * 1e9)};
  ppoll(fds, count, rest_s < 0 ? nullptr : &limit, nullptr);
  if (fds[0].revents & POLLIN) {
    eventfd_t value;
    eventfd_read(wake_fd_, &value);
  }
}

// The thread leaves within a turn: shorter than falling asleep and being woken.
void Driver::take_over(Lock& driving) {
  for (int i = 0; i < takeover_yields; ++i) {
    if (driving.try_lock()) return;
    sched_yield();
  }
  driving.lock();
}

// After a short drive another call is likely, and will take what is left along; the thread comes
// back by itself soon.
void Driver::leave(double began_s, bool pending) {
  const bool long_drive = now_s() > began_s + parked_s / 2;
  if (--callers_ == 0 && (ended_ || (pending && long_drive))) unpark();
}

void Driver::park() {
  std::unique_lock parking(parking_mutex_);
  parking_changed_.wait_for(parking, std::chrono::duration<double>(parked_s));
}

void Driver::unpark() {
  std::lock_guard lock(parking_mutex_);
  parking_changed_.notify_all();
}

}  // namespace patallreduce::executor
