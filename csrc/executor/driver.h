// Who drives what must be turned again and again: a thread of its own, or the callers that wait.
//
// One thread at a time turns it, and holds the driver's lock meanwhile. A caller that waits drives
// from its own thread, which saves two context switches; the driver's thread parks until then.
// After a turn that brought nothing, whoever drives spins briefly, then sleeps on the transport's
// file descriptors: there are fewer cores than threads.
#pragma once

#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <mutex>
#include <thread>
#include <vector>

#include "clock.h"
#include "transport/transport.h"

namespace patallreduce::executor {

using transport::Transport;

// What is driven. Its functions are called with the driver's lock held.
class Driven {
 public:
  virtual ~Driven() = default;

  // One round of everything; false: nothing happened. Does not throw.
  virtual bool turn() = 0;
  // How long to sleep at most, now that nothing has happened for `idle_s`; negative: until it is
  // woken; 0: not at all.
  virtual double rest_s(double idle_s) = 0;
  // Whether there is something that only turning can end.
  virtual bool pending() const = 0;
};

class Driver {
 public:
  using Lock = std::unique_lock<std::mutex>;

  // `shares_cores`: others need the core on which a thread spins.
  Driver(Driven& driven, Transport& transport, double spin_s, bool shares_cores);
  ~Driver();
  Driver(const Driver&) = delete;

  void start_thread();
  // From any thread, at any time: there is something to do.
  void wake();
  // Keeps everybody else from turning.
  Lock lock() { return Lock(mutex_); }
  // Turns until `done`, or `until_s` has passed. Ends with the lock held.
  template <typename Done>
  void drive(Lock& driving, double until_s, Done done);
  // Drives for a caller that waits until `done`, at most for `slice_s` or until the end.
  template <typename Done>
  void help(double slice_s, Done done);

  // Nobody begins another turn.
  void end() { ended_ = true; }
  bool ended() const { return ended_; }
  // Without the lock: ends, and waits until the thread and all callers have left.
  void join();

 private:
  void run();
  bool turn();
  void rest(double at_most_s, Lock& driving);
  void take_over(Lock& driving);
  void leave(double began_s, bool pending);
  void park();
  void unpark();

  Driven& driven_;
  Transport& transport_;
  const std::vector<int> event_fds_;
  const double spin_s_;
  const bool shares_cores_;

  std::mutex mutex_;         // the lock: guards what is driven, its transport, and this
  double idle_since_s_ = 0;  // 0: the last turn was busy

  std::atomic<bool> ended_{false};
  std::atomic<int> callers_{0};  // that drive: the thread keeps out of their way
  std::mutex parking_mutex_;     // for the thread to sleep meanwhile; guards waking
  std::condition_variable parking_changed_;
  int wake_fd_;  // -1: closed
  std::thread thread_;
};

// A caller that drives looks at least this often whether all has ended.
constexpr double longest_rest_s = 0.02;

template <typename Done>
void Driver::drive(Lock& driving, double until_s, Done done) {
  for (;;) {
    if (!driving.owns_lock()) take_over(driving);
    if (done()) return;
    if (turn()) continue;
    const double left_s = until_s - now_s();
    if (left_s <= 0) return;
    rest(std::min(left_s, longest_rest_s), driving);
  }
}

template <typename Done>
void Driver::help(double slice_s, Done done) {
  const double began_s = now_s();
  ++callers_;
  bool pending;
  {
    Lock driving(mutex_, std::defer_lock);
    drive(driving, began_s + slice_s, [&] { return done() || ended_; });
    pending = driven_.pending();
  }
  leave(began_s, pending);
}

}  // namespace patallreduce::executor
