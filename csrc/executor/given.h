// A schedule that a caller gives in place of an algorithm's name.
//
// It runs as any other: its key has a hash of all ranks' steps in its name, so ranks that were
// given different steps disagree on the call; and it holds this rank's steps, which stay here.
// Another rank's announcement brings the key without them: a rank that has run the schedule before
// finds its program by the key and starts early, others start when they arrive.
//
//   cost    verify() and one compilation per rank: milliseconds up to some 100,000 steps
#pragma once

#include "schedule/schedule.h"
#include "schedule/schedule_key.h"

namespace patallreduce::executor {

using schedule::Schedule;
using schedule::ScheduleKey;

// What rank `rank` of `ranks` calls `schedule` by. Throws ScheduleError, on all ranks alike, unless
// it is proved, is for that many ranks and every rank can execute it.
ScheduleKey given_key(const Schedule& schedule, int ranks, int rank);

}  // namespace patallreduce::executor
