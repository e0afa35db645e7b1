// Which receive takes which send: messages from one rank to another match in program order.
#pragma once

#include <cstddef>
#include <vector>

#include "schedule/schedule.h"

namespace patallreduce::schedule {

// Steps of all ranks are numbered one after the other: step i of rank r is begin[r] + i.
struct Messages {
  std::vector<std::size_t> begin;    // one more than ranks
  std::vector<std::size_t> partner;  // the other end of the message: of a send its receive
};

// Throws ScheduleError, naming rank and step, unless every step stays within ranks and segments
// and every pair of ranks agrees on its messages: as many sends as receives, in the same order,
// of the same segments.
Messages match(const Schedule& schedule);

}  // namespace patallreduce::schedule
