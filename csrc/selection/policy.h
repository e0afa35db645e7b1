// What to do in this iteration and in the next ones, and when they would be over.
#pragma once

#include <vector>

#include "selection/rollout.h"

namespace patallreduce::selection {

struct Policy {
  const Algorithm* candidate;  // of this iteration; null: no plan
  std::vector<Way> now, then;  // in this iteration, in the next ones
  Ends ends_s;
  double change_s = 0;  // what it costs to begin with it, beyond what is simulated
};

// A change of what is usual costs time at first, and has to have paid after so many iterations.
constexpr int horizon = 16;

// After those, if it goes on as in the second half of the ones looked at.
double far_end_s(const Policy& policy);
// After those looked at.
double near_end_s(const Policy& policy);
// Of an iteration, on the mean of `horizon`.
double pace_s(const Ends& ends_s, double start_s);
Ends later(Ends ends_s, double by_s);

// The one that ends first, if it is by so much before another.
const Policy& earliest(const std::vector<Policy>& policies, const Policy& other, double by_s,
                       double (*end_s)(const Policy&));

}  // namespace patallreduce::selection
