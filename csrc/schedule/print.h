// Schedules in words, for people and for error messages.
#pragma once

#include <cstddef>
#include <string>

#include "schedule/schedule.h"

namespace patallreduce::schedule {

std::string text(const Step& step);  // "recv_reduce <- 1 segment 4 round 2"

// "rank 3 step 7 (send -> 0 segments [2, 4))": how every error names a step.
std::string place(const Schedule& schedule, int rank, std::size_t index);

std::string heading(const Schedule& schedule);  // "slt all_reduce, ranks 8, segments 32"

// One line per step, rank by rank.
std::string text(const Schedule& schedule);

}  // namespace patallreduce::schedule
