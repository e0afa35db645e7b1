#include "prediction/history.h"

#include <algorithm>
#include <cmath>

namespace patallreduce::prediction {

namespace {

constexpr double newest_value_share = 0.3;
constexpr int phase_memory = 20;  // a phase's mean still follows slow drift
// With few values the deviation is itself doubtful: within 2 % is always the same phase.
constexpr double band_deviations = 3;
constexpr double band_share = 0.02;

}  // namespace

void History::add(double value) {
  exponential_ = count_ == 0 ? value : exponential_ + newest_value_share * (value - exponential_);
  const double before = count_ == 0 ? value : last();
  recent_[count_ % window] = value;
  // Wraps far from int's end, and keeps both the place in the window and "more than a window".
  count_ = count_ == 1000 * window ? 999 * window + 1 : count_ + 1;

  if (phase_count_ == 0) return begin_phase(value);
  if (!leaves_band(value)) {
    outside_ = 0;
    return extend_phase(value);
  }
  const int side = value > phase_mean_ ? 1 : -1;
  if (side == outside_) {
    begin_phase(before);
    extend_phase(value);
  } else {
    outside_ = side;
  }
}

double History::average() const {
  const int n = std::min(count_, window);
  double sum = 0;
  for (int i = 0; i < n; ++i) sum += recent_[i];
  return sum / n;
}

double History::deviation() const { return std::sqrt(phase_variance_); }

void History::begin_phase(double value) {
  phase_count_ = 1;
  phase_mean_ = value;
  phase_variance_ = 0;
  outside_ = 0;
}

void History::extend_phase(double value) {
  phase_count_ = std::min(phase_count_ + 1, phase_memory);
  const double share = 1.0 / phase_count_;
  const double off = value - phase_mean_;
  phase_mean_ += share * off;
  phase_variance_ = (1 - share) * (phase_variance_ + share * off * off);
}

bool History::leaves_band(double value) const {
  // One value has no deviation; the second joins it unless it is far off.
  const double share = phase_count_ < 3 ? 5 * band_share : band_share;
  const double band = std::max(band_deviations * deviation(), share * std::abs(phase_mean_));
  return std::abs(value - phase_mean_) > band;
}

}  // namespace patallreduce::prediction
