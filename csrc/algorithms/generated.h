// Any algorithm's steps as they are needed: by rounds where one has rounds that follow each other,
// else each rank's at once.
#pragma once

#include <memory>

#include "algorithms/registry.h"
#include "schedule/step_source.h"

namespace patallreduce::algorithms {

using schedule::StepSource;

// Throws ScheduleError for a problem that makes no sense.
std::unique_ptr<StepSource> generated(const Algorithm& algorithm, const Problem& problem);

}  // namespace patallreduce::algorithms
