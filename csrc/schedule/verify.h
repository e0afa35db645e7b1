// Proof that a schedule does its collective, whatever the data and the timing.
#pragma once

#include "schedule/schedule.h"

namespace patallreduce {

// Returns if `schedule`
//   - stays within its ranks and segments and sends no rank its own messages,
//   - has the two ends of every message agree,
//   - cannot deadlock,
//   - ends with every rank's contribution exactly once in every segment of every rank, and
//   - with one sum order per segment on all ranks, so that replicas cannot drift apart, and
//   - if it promises the tree (Schedule::tree), with that sum order in every segment.
// Collective "reduce" asks the last three of the root alone.
//
// Throws ScheduleError naming rank and step otherwise. The ordering rule makes every timing
// give the same result, so one symbolic run (schedule/sum_order.h) stands for all.
void verify(const Schedule& schedule);

}  // namespace patallreduce
