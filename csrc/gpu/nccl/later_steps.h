// Of one rank's steps: what its later steps do with the segments that a step writes.
#pragma once

#include <vector>

#include "schedule/schedule.h"

namespace patallreduce::gpu {

struct LaterSteps {
  // Throws ScheduleError for a step that is the last to write some of its segments and not others.
  LaterSteps(const schedule::Schedule& schedule, int rank);

  std::vector<char> none_writes;  // [step]: its segments
  std::vector<char> some_sends;   // [step]: one of its segments
};

}  // namespace patallreduce::gpu
