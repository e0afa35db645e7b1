// Proof that a schedule does its collective, whatever the data and the timing.
#pragma once

#include "schedule/schedule.h"

namespace patallreduce::schedule {

// Returns if `schedule`
//   - stays within its ranks and segments and sends no rank its own messages,
//   - has the two ends of every message agree,
//   - cannot deadlock,
//   - ends every rank with what its collective is for:
//
//       all_reduce      every rank's contribution exactly once in every segment of every rank, with
//                       one sum order per segment on all ranks, so that replicas cannot drift apart
//       reduce          the same on the root alone; other ranks may hold anything
//       reduce_scatter  the same on rank r in the segments of block r alone (schedule/parts.h)
//       all_gather      in the segments of block r, rank r's contribution on every rank
//       broadcast       the root's contribution in every segment of every rank
//       barrier         no data: what every rank ends with has heard of every rank's arrival, once
//                       or more often
//
//   - and, if it promises the tree (Schedule::tree), with that sum order in every segment.
//
// Throws ScheduleError naming rank and step otherwise. The ordering rule makes every timing
// give the same result, so one symbolic run (schedule/sum_order.h) stands for all.
void verify(const Schedule& schedule);

}  // namespace patallreduce::schedule
