// One quantity over iterations, such as a bucket's arrival - start, and what four simple
// predictors say it will be next. Constant time and memory.
//
//   source  window of five: Proficz 2018 and Marendic 2016; arrival patterns stay alike for long
//           phases and then change at once: Faraj et al., ICS 2008, hence `phase`
#pragma once

#include <array>

namespace patallreduce::prediction {

class History {
 public:
  static constexpr int window = 5;

  void add(double value);

  int count() const { return count_; }  // values seen; the predictors need one
  double last() const { return recent_[(count_ - 1) % window]; }
  double average() const;  // of the last `window`
  double exponential() const { return exponential_; }
  // Mean of the present phase. Two values in a row that leave its noise band on the same side
  // begin a new one; a single one is a hiccup and counts for nothing.
  double phase() const { return phase_mean_; }
  double deviation() const;  // standard, of the present phase

 private:
  void begin_phase(double value);
  void extend_phase(double value);
  bool leaves_band(double value) const;

  std::array<double, window> recent_{};
  int count_ = 0;
  double exponential_ = 0;
  int phase_count_ = 0;
  double phase_mean_ = 0;
  double phase_variance_ = 0;
  int outside_ = 0;  // -1, +1: the last value lay below, above the band
};

}  // namespace patallreduce::prediction
