// What was planned lately, again and again, for iterations of the same buckets.
//
// To work out a plan takes up to tens of milliseconds, in which all ranks wait. Where the last
// plans agreed, the next one is most likely the same, for it is made for nearly the same arrivals.
#pragma once

#include <algorithm>

#include "algorithms/registry.h"
#include "selection/forecast.h"

namespace patallreduce::selection {

using algorithms::Algorithm;

struct Chosen {
  const Algorithm* algorithm = nullptr;  // none: no plan
  double pace_s = 0, plain_pace_s = 0;
};

class Usual {
 public:
  // So many plans in a row were the same, and ranks are as far apart as they were then, but for
  // slack_s.
  bool suits(const IterationForecast& forecast, double slack_s) const {
    const double apart_s = this->apart_s(forecast);
    return plans_ >= enough && apart_s >= least_s_ - slack_s && apart_s <= most_s_ + slack_s;
  }
  const Chosen& chosen() const { return chosen_; }
  // What was worked out for a forecast.
  void note(const IterationForecast& forecast, const Chosen& chosen) {
    const double apart_s = this->apart_s(forecast);
    const bool again = plans_ > 0 && chosen.algorithm == chosen_.algorithm;
    plans_ = again ? plans_ + 1 : 1;
    least_s_ = again ? std::min(least_s_, apart_s) : apart_s;
    most_s_ = again ? std::max(most_s_, apart_s) : apart_s;
    chosen_ = chosen;
  }

 private:
  static constexpr int enough = 3;

  static double apart_s(const IterationForecast& forecast) {
    return largest(forecast.arrivals_s.back()) - smallest(forecast.arrivals_s.back());
  }

  Chosen chosen_;
  int plans_ = 0;
  double least_s_ = 0, most_s_ = 0;  // from the first to the last arrival
};

}  // namespace patallreduce::selection
