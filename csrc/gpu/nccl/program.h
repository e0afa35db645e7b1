// One rank's schedule as work for a few streams of a GPU: groups of messages on one or more, sums
// on another, events between them. The host only queues it.
//
//   lane 0     | group 1 | group 2 | ------- | group 3 |
//                    \           \   /          \            \ events
//   sums       arrival   | sums 1 |   | sums 2 |   | sums 3 |  result
//
// Stage s is one level (schedule/levels.h): a group per lane (schedule/lanes.h) that has messages
// of it, and the sums of what they brought. Stage 0 is the arrival of this rank's contribution,
// without groups. A group waits for the sums of an earlier stage only if it sends what they wrote,
// or overwrites what they read: so group 2 travels while stage 1 is summed, where the schedule
// allows it. Likewise groups wait for groups of other lanes, and sums for groups, where the one
// needs what the other received, or overwrites what it received or sends. Everything waits for what
// was queued earlier only.
//
// What is received lands in one of three kinds of memory:
//   home     the caller's, if nothing else of its stage needs the old value: no copy at all
//   scratch  `regions` regions, taken in turn by the stages that need one
//   shadow   as large as home: results that are still to be sent when the caller has its own (early
//            out), the sums of a rank that has no result, and messages of pieces
// Early in: a group that only receives, into scratch or shadow, does not wait for the arrival. With
// lanes enough, and a region for every segment, a late rank takes in all that the others have
// summed without it: as much scratch as one message where each group receives one segment.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "schedule/schedule.h"

namespace patallreduce::gpu {

using schedule::Schedule;

enum class Memory : std::uint8_t { none, home, scratch, shadow };

// Segments [first, last) of one message: on the wire to or from `peer`.
struct Transfer {
  std::int32_t peer;
  std::int32_t first, last;
  Memory memory;
  std::int32_t lane;
};

// out = also = received OP held, or, with held none, a copy: out = also = received.
struct Sum {
  std::int32_t first, last;  // segments
  Memory out, also;          // also: none, or home
  Memory received;
  std::int32_t receive;  // which of the stage's receives, if received is scratch
  Memory held;
  bool callers;  // the caller's own value, not scaled yet: held or, with held none, received
};

// [lane] -> the stage whose group in that lane is waited for, -1: none
using AwaitedGroups = std::vector<std::int32_t>;

// The messages of one stage and lane; no work where there are none.
struct Group {
  std::int32_t awaited_sums = -1;  // it waits for the sums of this stage
  AwaitedGroups awaited_groups;    // and for these of other lanes
  bool has_messages = false;
  bool is_awaited = false;  // others wait for it
};

struct Stage {
  std::vector<Transfer> sends, receives;  // in program order
  std::vector<Group> groups;              // [lane]
  std::vector<Sum> sums;                  // in program order
  AwaitedGroups awaited_groups;           // by the sums
  std::int32_t region = -1;               // of scratch, if some receive lands there
  bool sums_are_awaited = false;          // by a later group
};

struct StreamProgram {
  int rank, ranks;
  int segments;
  int blocks;           // see schedule/offsets.h
  bool has_result;      // false: this rank only lends its contribution, home is never written
  bool divides;         // the result is a sum: an average of integers divides it at the end
  bool scales;          // made for contributions that are multiplied by a factor
  int lanes = 1;        // that it may use
  int regions = 0;      // of scratch that it uses
  bool shadow = false;  // it uses shadow
  std::vector<Stage> stages;
  std::int32_t result_stage = 0;  // after its sums, and groups, nobody touches home any more
  AwaitedGroups result_groups;    // the last groups that touch home
};

struct StreamProgramOptions {
  int ports = 1;    // see levels_of
  int lanes = 1;    // see lanes_of
  int regions = 2;  // of scratch at most: the more, the further groups run ahead of sums
  // The result may be used while it is still being sent, for a second copy of what is sent.
  bool early_out = false;
  bool scales = false;  // contributions are multiplied by a factor, as for an average
};

// Throws ScheduleError where levels_of and lanes_of do, and for options < 1.
std::shared_ptr<const StreamProgram> compile(const Schedule& schedule, int rank,
                                             const StreamProgramOptions& options);

}  // namespace patallreduce::gpu
