// How far this rank's clock is from the leader's, by round trips.
//
// The trip that took least was disturbed least: of the last few samples it gives the offset, with
// an error of at most half that trip. Old samples leave, so a drifting clock is followed.
#pragma once

#include <deque>

namespace patallreduce::monitor {

class ClockOffset {
 public:
  // sent and received on this clock, answered on the leader's.
  void sample(double sent_s, double answered_s, double received_s);
  int samples() const { return taken_; }
  // To add to this clock for the leader's; 0 before the first sample.
  double offset_s() const;
  double error_s() const;

 private:
  struct Sample {
    double trip_s;
    double offset_s;
  };
  const Sample* best() const;

  std::deque<Sample> kept_;
  int taken_ = 0;
};

}  // namespace patallreduce::monitor
