// From an event of one iteration to the start of the next, as long as it usually is.
#pragma once

#include <cmath>

namespace patallreduce::prediction {

class Pause {
 public:
  // The event was, or is expected, at `at_s`; until the next start.
  void begin(double at_s);
  void end(double start_s);

  bool known() const { return begun_ && learned_; }
  double start_s() const { return begin_s_ + usual_s_; }  // if known
  double error_s() const { return error_s_; }             // usual, of that; infinite: not known

 private:
  double begin_s_ = 0, usual_s_ = 0;
  double error_s_ = HUGE_VAL;
  bool begun_ = false, learned_ = false;
};

}  // namespace patallreduce::prediction
