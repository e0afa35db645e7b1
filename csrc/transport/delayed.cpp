#include "transport/delayed.h"

#include <sys/timerfd.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "clock.h"
#include "errors.h"

namespace patallreduce::transport {

Delayed::Delayed(std::shared_ptr<Transport> beneath, double max_delay_s, std::uint64_t seed)
    : beneath_(std::move(beneath)),
      max_delay_s_(max_delay_s),
      random_(seed * 1000003 + static_cast<std::uint64_t>(beneath_->rank())),
      held_(beneath_->ranks()) {
  PATR_CHECK(max_delay_s >= 0 && max_delay_s <= 3600, TransportError,
             "delayed: expected max_delay_s within 0..3600, got ", max_delay_s);
  timer_fd_ = timerfd_create(CLOCK_MONOTONIC, TFD_NONBLOCK | TFD_CLOEXEC);
}

Delayed::~Delayed() { ::close(timer_fd_); }

// The fifth power of a uniform number: a sixth of the longest on average, half of them under 3 %.
double Delayed::delay_s() {
  return max_delay_s_ * std::pow(std::uniform_real_distribution<double>(0, 1)(random_), 5);
}

void Delayed::control(int to, const std::string& bytes) {
  auto& queue = held_[to];
  double due_s = now_s() + delay_s();
  if (!queue.empty()) due_s = std::max(due_s, queue.back().due_s);  // one that waits blocks others
  queue.push_back({due_s, bytes});
}

double Delayed::next_due_s() const {
  double due_s = std::numeric_limits<double>::infinity();
  for (const auto& queue : held_)
    if (!queue.empty()) due_s = std::min(due_s, queue.front().due_s);
  return due_s;
}

void Delayed::progress(Events& events) {
  const double now = now_s();
  for (int peer = 0; peer < ranks(); ++peer) {
    auto& queue = held_[peer];
    for (; !queue.empty() && queue.front().due_s <= now; queue.pop_front())
      beneath_->control(peer, queue.front().bytes);
  }
  beneath_->progress(events);
}

bool Delayed::arm() {
  const double due_s = next_due_s();
  itimerspec at{};
  if (std::isfinite(due_s)) {
    if (due_s <= now_s()) return false;
    at.it_value.tv_sec = static_cast<time_t>(due_s);
    at.it_value.tv_nsec = static_cast<long>((due_s - std::floor(due_s)) * 1e9) + 1;
    if (at.it_value.tv_nsec >= 1000000000) at.it_value.tv_nsec = 999999999;
  }
  timerfd_settime(timer_fd_, TFD_TIMER_ABSTIME, &at, nullptr);  // also forgets that it expired
  return beneath_->arm();
}

std::vector<int> Delayed::event_fds() const {
  std::vector<int> fds = beneath_->event_fds();
  fds.push_back(timer_fd_);
  return fds;
}

void Delayed::abandon() { beneath_->abandon(); }

// Closing sends what was handed over before, a rank's goodbye for one.
void Delayed::close(double timeout_s) {
  for (int peer = 0; peer < ranks(); ++peer) {
    for (const Held& held : held_[peer]) beneath_->control(peer, held.bytes);
    held_[peer].clear();
  }
  beneath_->close(timeout_s);
}

}  // namespace patallreduce::transport
