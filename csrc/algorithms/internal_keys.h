// What the package runs by itself, beside what users call: never left to prediction.
#pragma once

#include <cstdint>
#include <vector>

#include "schedule/schedule_key.h"

namespace patallreduce::algorithms {

using schedule::ScheduleKey;

// Beside a collective whose data others move: proves that all ranks have called it.
ScheduleKey barrier_key();
// A shift of blocks, each in so many pieces: what the link meter times. How many blocks the message
// has, how many rounds it takes, and which ranks take part: the first of each node.
struct Shift {
  ScheduleKey key;
  int blocks, rounds;
  std::vector<std::int32_t> taking_part;
};
Shift metering_shift(int ranks, int pieces, std::vector<std::int32_t> node_of = {});
// Of blocks in one piece, in so many rounds that a call's own time counts for nothing.
Shift metering_long_shift(int ranks, std::vector<std::int32_t> node_of = {});
// One round of it, in the order of these numbers, one per rank.
Shift metering_neighbours(std::vector<double> order, std::vector<std::int32_t> node_of = {});
// A table of integers, of which every rank fills in its own stretch. A small one is all latency.
ScheduleKey table_key(std::uint64_t bytes, int ranks);
// Rank r's slice of everybody's data to rank r, of two copies side by side: what all give, and what
// they get.
ScheduleKey swap_key(int ranks);
// And the results of the slices to everybody, each straight from its owner.
ScheduleKey spread_key(int ranks);

}  // namespace patallreduce::algorithms
