// From a key to the schedule of all ranks.
#pragma once

#include "schedule/schedule_key.h"

namespace patallreduce::bindings {

using schedule::Schedule;
using schedule::ScheduleKey;

// Throws ScheduleError.
Schedule schedule_of_key(const ScheduleKey& key, int ranks);

}  // namespace patallreduce::bindings
