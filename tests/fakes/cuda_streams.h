// Fakes of CUDA's streams and events. A stream is a queue with a thread of its own that does one
// piece of work after the other, now and then after a delay. So whatever is not ordered by a stream
// or an event really runs in another order sooner or later.
#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <random>
#include <set>
#include <thread>

namespace fake {

struct Signal {
  std::mutex mutex;
  std::condition_variable changed;
  bool given = false;

  void give() {
    std::lock_guard lock(mutex);
    given = true;
    changed.notify_all();
  }
  bool is_given() {
    std::lock_guard lock(mutex);
    return given;
  }
};

// The fake NCCL, another library, queues its groups on this: hence virtual.
class Stream {
 public:
  virtual ~Stream() = default;
  virtual void add(std::function<void()> work) = 0;
};

class Queue final : public Stream {
 public:
  explicit Queue(unsigned seed) : random_(seed), thread_([this] { run(); }) {}
  ~Queue() override {
    {
      std::lock_guard lock(mutex_);
      ending_ = true;
      changed_.notify_all();
    }
    thread_.join();
  }

  void add(std::function<void()> work) override {
    std::lock_guard lock(mutex_);
    work_.push_back(std::move(work));
    changed_.notify_all();
  }

  // Waits in the queue, not here. A stream's end, as CUDA's, does not change the order of what is
  // queued; a signal that does not come for seconds after it never will.
  void wait(std::shared_ptr<Signal> signal) {
    add([this, signal] {
      std::unique_lock lock(signal->mutex);
      for (int left = 1000; !signal->given && left > 0; left -= ending_ ? 1 : 0) {
        signal->changed.wait_for(lock, std::chrono::milliseconds(5));
      }
    });
  }

 private:
  void run() {
    std::unique_lock lock(mutex_);
    while (true) {
      changed_.wait(lock, [this] { return ending_ || !work_.empty(); });
      if (work_.empty()) return;
      const std::function<void()> next = std::move(work_.front());
      work_.pop_front();
      lock.unlock();
      if (random_() % 8 == 0)
        std::this_thread::sleep_for(std::chrono::microseconds(random_() % 400));
      next();
      lock.lock();
    }
  }

  std::mt19937 random_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<std::function<void()>> work_;
  std::atomic<bool> ending_{false};
  std::thread thread_;
};

// Which streams and events there are, to count them and to refuse others.
struct Existing {
  std::mutex mutex;
  std::set<void*> streams, events, memory;
};

inline Existing& existing() {
  static Existing* const all = new Existing;  // threads may outlive static objects
  return *all;
}

inline bool exists(void* stream) {
  std::lock_guard lock(existing().mutex);
  return stream == nullptr || existing().streams.count(stream) > 0;
}

// As CUDA's: waiting means what was recorded last when the wait was queued.
struct Event {
  std::mutex mutex;
  std::shared_ptr<Signal> last;
};

}  // namespace fake
