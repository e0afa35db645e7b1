// From an event of one iteration to the start of the next, as long as it usually is.
#pragma once

#include <cmath>

#include "prediction/smoothed.h"
#include "prediction/times.h"

namespace patallreduce::prediction {

class Pause {
 public:
  // The event was, or is expected, at `at_s`; until the next start.
  void begin(double at_s) {
    begun_ = is_time(at_s);
    begin_s_ = at_s;
  }
  void end(double start_s) {
    const double pause_s = start_s - begin_s_;
    if (begun_ && std::abs(pause_s) <= longest_s) usual_s_.add(pause_s);
    begun_ = false;  // a second start in a row ends no pause
  }

  bool known() const { return begun_ && usual_s_.count() > 0; }
  double start_s() const { return begin_s_ + usual_s_.mean(); }  // if known
  // Usual, of that; infinite: not known.
  double error_s() const { return usual_s_.count() > 1 ? usual_s_.off() : HUGE_VAL; }

 private:
  double begin_s_ = 0;
  bool begun_ = false;
  Smoothed usual_s_{0.3};
};

}  // namespace patallreduce::prediction
