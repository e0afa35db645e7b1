// The newest of some values: their median, and how far single ones are from it. What one of them is
// off by, however much, changes next to nothing.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <deque>
#include <numeric>
#include <utility>
#include <vector>

namespace patallreduce::prediction {

// Of an even number the upper one; not of none.
inline double median(std::vector<double> values) {
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

class Newest {
 public:
  explicit Newest(std::size_t most) : most_(most) {}

  void add(double value) {
    values_.push_back(value);
    if (values_.size() > most_) values_.pop_front();
  }

  std::size_t count() const { return values_.size(); }
  auto begin() const { return values_.begin(); }
  auto end() const { return values_.end(); }
  // Of two their mean; NaN of none.
  double middle() const {
    if (values_.empty()) return NAN;
    if (values_.size() == 2) return (values_.front() + values_.back()) / 2;
    return median({values_.begin(), values_.end()});
  }
  // A quarter of them are less; of three the least, NaN of none.
  double quarter() const {
    if (values_.empty()) return NAN;
    std::vector<double> values(values_.begin(), values_.end());
    const auto quarter = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 4);
    std::nth_element(values.begin(), quarter, values.end());
    return *quarter;
  }
  Newest below(double limit) const {
    Newest found(most_);
    for (const double value : values_)
      if (value < limit) found.add(value);
    return found;
  }
  // NaN of none.
  double mean() const {
    return std::accumulate(values_.begin(), values_.end(), 0.0) / static_cast<double>(count());
  }
  // Of one from the mean, squared; NaN of less than two.
  double variance() const {
    const double mean = this->mean();
    double squares = 0;
    for (const double value : values_) squares += (value - mean) * (value - mean);
    return count() < 2 ? NAN : squares / static_cast<double>(count() - 1);
  }

 private:
  std::size_t most_;
  std::deque<double> values_;
};

}  // namespace patallreduce::prediction
