// Lets any thread wake one that sleeps: a notification is kept until it is waited for.
#pragma once

#include <chrono>
#include <condition_variable>
#include <mutex>

namespace patallreduce::gpu {

class Wakeup {
 public:
  void notify() {
    std::lock_guard lock(mutex_);
    notified_ = true;
    changed_.notify_all();
  }
  void wait() {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [this] { return notified_; });
    notified_ = false;
  }
  void wait_for(double seconds) {
    std::unique_lock lock(mutex_);
    changed_.wait_for(lock, std::chrono::duration<double>(seconds), [this] { return notified_; });
    notified_ = false;
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  bool notified_ = false;
};

}  // namespace patallreduce::gpu
