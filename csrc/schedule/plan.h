// The leader's numbered decision for one iteration: algorithm, segments and order per bucket.
#pragma once

#include <cstdint>
#include <vector>

#include "schedule/schedule_key.h"

namespace patallreduce::schedule {

struct PlannedBucket {
  std::uint64_t elements = 0;
  std::uint32_t element_bytes = 0;
  ScheduleKey key;
};

// A bucket that it does not name, or names with another size, keeps the key of its call.
struct Plan {
  std::int64_t loop = 0;  // one per model; 0: collectives outside DDP
  std::int64_t iteration = 0;
  std::vector<PlannedBucket> buckets;  // by bucket index
};

}  // namespace patallreduce::schedule
