#include "monitor/clock_offset.h"

#include <algorithm>
#include <cmath>
#include <cstddef>

namespace patallreduce::monitor {

namespace {

constexpr std::size_t kept_samples = 16;

}  // namespace

void ClockOffset::sample(double sent_s, double answered_s, double received_s) {
  if (!(received_s >= sent_s) || !std::isfinite(answered_s + sent_s + received_s)) return;
  kept_.push_back({received_s - sent_s, answered_s - (sent_s + received_s) / 2});
  if (kept_.size() > kept_samples) kept_.pop_front();
  ++taken_;
}

const ClockOffset::Sample* ClockOffset::best() const {
  const auto least = std::min_element(
      kept_.begin(), kept_.end(), [](const auto& a, const auto& b) { return a.trip_s < b.trip_s; });
  return least == kept_.end() ? nullptr : &*least;
}

double ClockOffset::offset_s() const {
  const Sample* sample = best();
  return sample ? sample->offset_s : 0;
}

double ClockOffset::error_s() const {
  const Sample* sample = best();
  return sample ? sample->trip_s / 2 : 0;
}

}  // namespace patallreduce::monitor
