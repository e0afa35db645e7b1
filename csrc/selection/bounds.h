// What no plan can beat, and what no rollout with one way can: so that hopeless ones are not run.
#pragma once

#include "selection/rollout.h"

namespace patallreduce::selection {

// When the last rank can compute again after this iteration, whatever all-reduce is taken;
// -infinite where that would take long to tell.
double least_end_s(const IterationForecast& forecast, int ranks, const Link& link);
// Of an iteration, lastingly: the slowest rank computes, and the mean port has to take in what a
// ring moves through it.
double least_pace_s(const IterationForecast& forecast, int ranks, const Link& link);
// After look_ahead iterations whose last bucket is reduced so: it alone, and the computations.
double least_end_s(const IterationForecast& forecast, const Way& way, const Link& link);

}  // namespace patallreduce::selection
