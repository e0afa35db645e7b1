#include "prediction/pause.h"

#include <cmath>

#include "prediction/times.h"

namespace patallreduce::prediction {

namespace {
constexpr double newest_share = 0.3;
}

void Pause::begin(double at_s) {
  begun_ = is_time(at_s);
  begin_s_ = at_s;
}

void Pause::end(double start_s) {
  const double pause_s = start_s - begin_s_;
  if (begun_ && std::abs(pause_s) <= longest_s) {
    const double error_s = std::abs(pause_s - usual_s_);
    if (learned_)
      error_s_ = std::isinf(error_s_) ? error_s : error_s_ + newest_share * (error_s - error_s_);
    usual_s_ = learned_ ? usual_s_ + newest_share * (pause_s - usual_s_) : pause_s;
    learned_ = true;
  }
  begun_ = false;  // a second start in a row ends no pause
}

}  // namespace patallreduce::prediction
