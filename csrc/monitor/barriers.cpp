#include "monitor/barriers.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <numeric>
#include <utility>

namespace patallreduce::monitor {

namespace {

constexpr double kept = 0.995;    // of what was seen, from one iteration to the next
constexpr double replaced = 0.1;  // of that, where as much is seen anew as all that was
constexpr double nearer = 0.5;    // to 0 than to 1
constexpr double errors = 2;      // for doubt

std::vector<double> from_mean(std::vector<double> values) {
  const double sum = std::accumulate(values.begin(), values.end(), 0.0);
  for (double& value : values) value -= sum / static_cast<double>(values.size());
  return values;
}

}  // namespace

void Barriers::add(const std::vector<double>& free_s, const std::vector<double>& arrived_s) {
  const std::vector<double> free_before_s = std::exchange(free_s_, from_mean(free_s));
  const std::vector<double> arrived_before_s = std::exchange(arrived_s_, from_mean(arrived_s));
  double free = 0, arrived = 0, both = 0;
  for (std::size_t rank = 0; rank < free_before_s.size(); ++rank) {
    const double x = free_s_[rank] - free_before_s[rank];
    const double y = arrived_s_[rank] - arrived_before_s[rank];
    free += x * x;
    arrived += y * y;
    both += x * y;
  }
  const double weight = kept * (1 - replaced * (free_ > 0 ? std::min(free / free_, 1.0) : 0));
  count_ = weight * count_ + static_cast<double>(free_before_s.size());
  free_ = weight * free_ + free;
  arrived_ = weight * arrived_ + arrived;
  both_ = weight * both_ + both;
}

bool Barriers::seen() const {
  if (free_ == 0) return false;
  const double slope = both_ / free_;
  const double unexplained = std::max(arrived_ - slope * both_, 0.0) / count_;
  return std::abs(slope) + errors * std::sqrt(unexplained / free_) < nearer;
}

}  // namespace patallreduce::monitor
