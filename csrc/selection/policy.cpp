#include "selection/policy.h"

#include <cmath>

namespace patallreduce::selection {

namespace {

double far_end_s(const Ends& ends_s) {
  constexpr int half = look_ahead / 2;
  if (std::isinf(ends_s.back())) return ends_s.back();  // it was not looked at to the end
  return ends_s.back() + (horizon - look_ahead) * (ends_s.back() - ends_s[half - 1]) / half;
}

}  // namespace

double far_end_s(const Policy& policy) { return far_end_s(policy.ends_s) + policy.change_s; }

double near_end_s(const Policy& policy) { return policy.ends_s.back(); }

double pace_s(const Ends& ends_s, double start_s) {
  return (far_end_s(ends_s) - start_s) / horizon;
}

Ends later(Ends ends_s, double by_s) {
  for (double& at_s : ends_s) at_s += by_s;
  return ends_s;
}

const Policy& earliest(const std::vector<Policy>& policies, const Policy& other, double by_s,
                       double (*end_s)(const Policy&)) {
  const Policy* best = &other;
  double before_s = end_s(other) - by_s;
  for (const Policy& policy : policies) {
    if (!(end_s(policy) < before_s)) continue;
    best = &policy;
    before_s = end_s(policy);
  }
  return *best;
}

}  // namespace patallreduce::selection
