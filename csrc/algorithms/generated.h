// Any algorithm's steps as they are needed: by rounds where one has rounds that follow each other,
// else each rank's at once.
#pragma once

#include <memory>
#include <string>

#include "schedule/step_source.h"

namespace patallreduce::algorithms {

using schedule::Problem;
using schedule::StepSource;

// Throws ScheduleError for an unknown algorithm or a problem that makes no sense.
std::unique_ptr<StepSource> generated(const std::string& algorithm, const Problem& problem,
                                      const std::string& collective = "");

}  // namespace patallreduce::algorithms
