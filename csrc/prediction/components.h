// The component predictors by name: each gives an arrival on its own, and a job learns which of
// them to follow (job.h).
#pragma once

#include <array>
#include <cstddef>
#include <limits>

namespace patallreduce::prediction {

enum class Component {
  last,          // as in the last iteration
  average,       // mean of the last five
  exponential,   // newest 0.3, all older 0.7
  phase,         // mean since the arrivals last changed for good
  additive,      // newest edge + the usual time from there on
  proportional,  // newest edge, later parts as slow as the parts before it
  linear,        // newest edge / fraction: needs no history
  shared,        // what history and edges meant on all ranks of the job
};
constexpr std::size_t component_count = 8;

const char* name(Component component);

// Seconds per component, NaN where it says nothing.
struct Components {
  std::array<double, component_count> value;

  Components() { value.fill(std::numeric_limits<double>::quiet_NaN()); }
  double& operator[](Component c) { return value[std::size_t(c)]; }
  double operator[](Component c) const { return value[std::size_t(c)]; }
};

}  // namespace patallreduce::prediction
