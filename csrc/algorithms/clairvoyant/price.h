// When would every rank have its result? For comparing schedules within a generator, which knows
// no link, only how long a segment takes and which part of that is latency.
//
// The same world as csrc/pricing's: one full-duplex port per rank, a message occupies both ports
// for its transfer and a quarter of the latency (link.h says why) and is there after the rest; what
// is ready first leaves first; sums occupy the rank.
#pragma once

#include <cmath>
#include <vector>

#include "schedule/schedule.h"

namespace patallreduce::algorithms {

using schedule::Schedule;

struct Finish {
  double last_s = HUGE_VAL;     // of all ranks, from the first arrival on
  double elapsed_s = HUGE_VAL;  // mean of finish - arrival
};

struct Pace {
  std::vector<double> arrivals_s;  // [rank]
  double latency_s;
  double whole_s;  // to transfer the whole data, without latencies
  double sum_s;    // to sum it
  int units;       // equal parts of the data that its segments are runs of
};

// Gives up, with the two infinite, once it is clear that a rank finishes after `limit_s`.
Finish finish_of(const Schedule& schedule, const Pace& pace, double limit_s = HUGE_VAL);

}  // namespace patallreduce::algorithms
