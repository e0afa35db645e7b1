// Lanes: a rank's messages of one level (schedule/levels.h) as up to one group per lane, each lane
// being a queue of its own, so that what can only be received early does not share a group with
// what can only be sent late.
//
//   a chain whose last rank, 3, is late, two segments, in one lane and in two:
//
//   rank 2   [recv 0][recv 1, send 0 ][send 1]           [recv 0][recv 1]
//                                                                [send 0][send 1]
//   rank 3           [recv 0][recv 1, send result 0]             [recv 0][recv 1]
//                             ^ needs rank 3: so does                    [send result 0]
//                               the receive beside it
//
// A *flow* is all messages of one verb from one rank to another; it has one lane, so both ends of a
// message have. Two flows are at odds where a rank receives the one and sends the other: badly in
// the levels in which it does both, and a little elsewhere, since a lane keeps its order. Chains,
// and rings of an even number of ranks, fall into two lanes without a group that does both; a ring
// of an odd number, and a chain whose results return to its first rank while that still sends, need
// a third. What finds no lane stays in a group that does both, which is slower and never wrong.
//
// No deadlock: on every rank groups are queued by level, then lane, and both ends of a message have
// the same ones. The lowest group that is not over anywhere (collective, level, lane) finds its
// peers' groups at the heads of their lanes, or behind work that is lower still, and everything a
// group waits for on its own GPU (sums, groups of other lanes, the arrival) was queued before it,
// too. So it moves as soon as the heads of all lanes can run at once; and if they could only run
// one after the other, in the order in which they were queued, as with too few hardware queues, the
// same order would still end. What it takes: a kernel per lane and one of sums at the same time.
#pragma once

#include <cstdint>
#include <vector>

#include "schedule/levels.h"
#include "schedule/schedule.h"

namespace patallreduce::schedule {

// How many it takes for chains and rings: two, or three for an odd number of ranks.
int lanes_for(int ranks);

// [rank][step]: 0 to lanes - 1. The same on every machine: integers alone decide.
//
// Cost: O(messages * log) and, at each rank, one look at each pair of a flow that it receives and
// one that it sends.
//
// Throws ScheduleError for unmatched messages. lanes: 1 or more.
std::vector<std::vector<std::int32_t>> lanes_of(const Schedule& schedule, const Levels& levels,
                                                int lanes);

}  // namespace patallreduce::schedule
