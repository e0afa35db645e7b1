// From a key to what it stands for. What executes schedules is given these functions and knows no
// algorithm.
#pragma once

#include <string>

#include "schedule/schedule_key.h"

namespace patallreduce::algorithms {

using schedule::Schedule;
using schedule::ScheduleKey;
using schedule::Steps;

// One rank's. Of a dynamic schedule: those of a place in the order of arrival, with places for
// peers. Throws ScheduleError, as the others do that say nothing else.
Steps steps_of(const ScheduleKey& key, int ranks, int rank);
// All ranks' steps. Of a dynamic schedule: as the arrivals in the key would have it.
Schedule schedule_of(const ScheduleKey& key, int ranks);
// Whether ranks take their places as they arrive; false for keys that steps_of() refuses.
bool is_dynamic(const ScheduleKey& key);
// What it is for: one of schedule/verify.h.
std::string collective_of(const ScheduleKey& key);

}  // namespace patallreduce::algorithms
