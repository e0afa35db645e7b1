// A schedule in numbered levels, for transports that only know *groups*: sends and receives that
// are posted together and end together, one group after the other, as NCCL's on a stream.
//
//   rank 0   send 1        | sum | recv 1        |     |
//   rank 1   recv 0 send 2 | sum | send 0 recv 2 | sum |     a column: one level
//   rank 2   recv 1        | sum | send 1        |     |
//
// Both ends of a message have one level, so every rank posts its messages of a level as one group,
// in program order, and after the group applies what it received, in program order. Whoever is at
// the lowest level that is not over yet finds all its peers there: no order can deadlock. Ranks
// skip levels in which they have no message.
//
// What levels keep of the ordering rule, a group's receives being applied after the group:
//   a send         comes later than the receive that wrote one of its segments     (level + 1)
//   a receive      comes no earlier than what reads or writes its segments before it
// Messages that must not come before each other (exchanges) share a level. Of two messages from one
// rank to another the later one may have the lower level: both ends post it first.
#pragma once

#include <cstdint>
#include <vector>

#include "schedule/schedule.h"

namespace patallreduce::schedule {

struct Levels {
  int count = 0;
  std::vector<std::vector<std::int32_t>> of_step;  // [rank][step]: 0 to count - 1
};

// The same on every machine: integers alone decide.
//
// ports: the most sends, and the most receives, of a rank in one level, unless messages that must
// share a level are more. Without that bound all segments of a pipeline would meet in one level,
// and none would be summed before all have come.
// Cost: O(messages + edges), and at every level one look at each message that waits for a port.
//
// Throws ScheduleError for unmatched messages and deadlock, and for schedules that are right but
// for which there are no groups: a message whose receiver would have to keep it aside until the
// same message, by way of others, has led to what it may not overtake. ports: 1 or more.
Levels levels_of(const Schedule& schedule, int ports = 1);

}  // namespace patallreduce::schedule
