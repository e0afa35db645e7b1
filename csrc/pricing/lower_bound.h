// What no all-reduce can beat: when ranks have their last results of an iteration's buckets, at the
// earliest. patallreduce/pricing/lower_bound.py says why, and names the sources.
#pragma once

#include <cstdint>
#include <vector>

#include "pricing/link.h"

namespace patallreduce::pricing {

struct LowerBound {
  std::vector<double> finish_s;  // by rank
  double last_finish_s;          // of all ranks
};

// By bucket and rank, arrivals_s: finite; one bucket or more, the same ranks in each, 1 or more.
// ports: bytes a second that each rank sends, or receives; empty: the link's. burst_s: by so much
// any port may be ahead of that. Throws ScheduleError unless there is no port, or one > 0 for every
// rank.
LowerBound lower_bound(const Link& link, const std::vector<std::uint64_t>& message_bytes,
                       const std::vector<std::vector<double>>& arrivals_s,
                       std::vector<double> ports = {}, double burst_s = 0);

}  // namespace patallreduce::pricing
