// What is expected of an iteration: when each rank has each bucket ready, how long it computes.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "algorithms/registry.h"

namespace patallreduce::selection {

using algorithms::Bucket;

// Seconds. Ranks hand over their buckets in order.
struct IterationForecast {
  std::vector<Bucket> buckets;
  std::vector<std::vector<double>> arrivals_s;  // of this iteration, by bucket and rank; any clock
  // Per rank; empty: certain.
  std::vector<double> errors_s;   // standard deviation of its arrivals
  std::vector<double> compute_s;  // from its last result to its next last arrival; empty: equal
  std::vector<double> spreads_s;  // standard deviation of that
  bool barrier = false;           // no rank computes before all have their last results
  std::string before;             // the algorithm of the iteration before, if that went by a plan
};

// Throws ScheduleError unless every bucket has (ranks) finite arrivals, and errors, computations
// and spreads are >= 0.
void check(const IterationForecast& forecast, int ranks);

// 0 of none.
double smallest(const std::vector<double>& values);
double largest(const std::vector<double>& values);

// Moves the first arrival to 0; returns where it was.
double from_zero(std::vector<std::vector<double>>& arrivals_s);

// What forecasts that may as well be treated alike have in common.
std::vector<double> in_quanta(const IterationForecast& forecast, double quantum_s);

// With neighbours together, so that of `messages` no more than `most` are left; the last bucket
// stays alone.
IterationForecast grouped(const IterationForecast& forecast, std::size_t messages,
                          std::size_t most);

}  // namespace patallreduce::selection
