#include "monitor/catch_up.h"

#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <chrono>
#include <exception>
#include <utility>

#include "clock.h"

namespace patallreduce::monitor {

namespace {

constexpr int lowest_priority = 19;
// Shares of the thread's time.
constexpr double most_working = 0.25, most_confirming = 0.005;

void lower_priority() {
  const auto self = static_cast<id_t>(syscall(SYS_gettid));
  (void)setpriority(PRIO_PROCESS, self, lowest_priority);  // Linux: of this thread
}

}  // namespace

void CatchUp::start(Work work, std::function<void(const std::string&)> failed) {
  end();
  {
    const std::lock_guard lock(mutex_);  // somebody may wake it
    woken_ = ended_ = false;
  }
  thread_ = std::thread([this, work = std::move(work), failed = std::move(failed)] {
    try {
      lower_priority();
      run(work);
    } catch (const std::exception& error) {
      failed(error.what());
    }
  });
}

void CatchUp::run(const Work& work) {
  double next_s = 0, next_confirmation_s = 0;
  std::unique_lock lock(mutex_);
  for (;;) {
    changed_.wait(lock, [&] { return ended_ || woken_; });
    const std::chrono::duration<double> rest(next_s - now_s());
    if (changed_.wait_for(lock, rest, [&] { return ended_; })) return;
    woken_ = false;
    lock.unlock();
    const double begun_s = thread_s();
    if (work(now_s() >= next_confirmation_s)) {
      const double took_s = thread_s() - begun_s, ended_s = now_s();
      next_s = ended_s + took_s * (1 / most_working - 1);
      next_confirmation_s = ended_s + took_s * (1 / most_confirming - 1);
    }
    lock.lock();
  }
}

void CatchUp::wake() {
  {
    const std::lock_guard lock(mutex_);
    woken_ = true;
  }
  changed_.notify_one();
}

void CatchUp::end() {
  {
    const std::lock_guard lock(mutex_);
    ended_ = true;
  }
  changed_.notify_one();
  if (thread_.joinable()) thread_.join();
}

}  // namespace patallreduce::monitor
