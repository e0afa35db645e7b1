// The rounds of a schedule whose algorithm has none: those of a run in which every message takes
// one round of its two ports, and sums and latencies take nothing.
#pragma once

#include "schedule/table.h"

namespace patallreduce::pricing {

using schedule::Rounds;
using schedule::Schedule;

// The algorithm's own rounds if all steps have one. Throws ScheduleError if messages do not match
// or the schedule deadlocks.
Rounds rounds_of(const Schedule& schedule);

}  // namespace patallreduce::pricing
