// A value that changes slowly: what it is about, and how far single ones are from that.
#pragma once

#include <algorithm>
#include <cmath>

namespace patallreduce::prediction {

class Smoothed {
 public:
  // newest_share: the weight of the newest value, once there are more than its inverse.
  explicit Smoothed(double newest_share) : newest_share_(newest_share) {}

  void add(double value) {
    if (count_ > 0) off_ += weight(count_) * (std::abs(value - mean_) - off_);
    mean_ += weight(++count_) * (value - mean_);
  }

  double count() const { return count_; }
  double mean() const { return mean_; }  // 0 before the first value
  double off() const { return off_; }    // mean distance; 0 before the second value

 private:
  double weight(double values) const { return std::max(1 / values, newest_share_); }

  double newest_share_;
  double count_ = 0, mean_ = 0, off_ = 0;
};

}  // namespace patallreduce::prediction
