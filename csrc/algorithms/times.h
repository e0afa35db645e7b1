// Seconds that some schedules depend on, apart from arrivals.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>

#include "pricing/link.h"

namespace patallreduce::algorithms {

using pricing::Link;

// As in schedule::Problem; 0 where a schedule does not depend on it.
struct Times {
  double segment_time_s = 0, latency_s = 0, sum_s = 0;
};

// What they follow from.
struct Timed {
  int ranks;
  int segments;
  std::uint64_t message_bytes;
  bool together;                  // no rank is expected to be late
  std::optional<double> given_s;  // the segment_time_s that a caller asked for
  std::function<Link()> link;     // may measure it: called only if something depends on it
};

// To transfer and sum 1/P of the data, or what the caller gave.
Times part_time(const Timed& timed);
// The same where a rank's port transfers to as many at once as it takes to fill it.
Times part_time_of_full_ports(const Timed& timed);

// To transfer and sum a segment: a round of Clairvoyant.
//   source  Marendic, Lemeire, Vucinic, Schelkens, J. Supercomput. 72 (2016), section 5.4:
//           d = alpha + B (beta + gamma) for a segment of B bytes
Times round_times(const Timed& timed);

}  // namespace patallreduce::algorithms
