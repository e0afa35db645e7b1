// Four ways to make Clairvoyant's schedule, equal step for step. See the files of these names.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "schedule/schedule.h"

namespace patallreduce::algorithms {

using schedule::Problem;
using schedule::Steps;

struct ClairvoyantSchedule {
  std::vector<Steps> steps;     // [rank]
  std::size_t state_bytes = 0;  // memory for what every rank holds, the schedule's own apart
};

ClairvoyantSchedule clairvoyant_linear(const Problem& problem);
ClairvoyantSchedule clairvoyant_pairing_heap(const Problem& problem);
ClairvoyantSchedule clairvoyant_segment_tree(const Problem& problem);
// `only`: the rank whose steps are kept; -1: all.
ClairvoyantSchedule clairvoyant_bit_rows(const Problem& problem, int only = -1);

// By name: "linear", "pairing_heap", "segment_tree" or "bit_rows"; throws ScheduleError. For tests
// and benchmarks: the registered algorithm uses the fastest.
ClairvoyantSchedule clairvoyant_by(const std::string& implementation, const Problem& problem);

}  // namespace patallreduce::algorithms
