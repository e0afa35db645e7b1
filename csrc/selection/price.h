// What a candidate would cost under a forecast: see selection/selector.h for the objective.
//
// Up to 32 ranks by simulation, under the mean pattern and samples around it; beyond that in closed
// form under as many, which takes microseconds. What needs no arrivals, or only their order, is
// prepared once: the order is a renaming of the ranks.
#pragma once

#include <cstdint>
#include <vector>

#include "selection/pattern.h"
#include "selection/schedules.h"

namespace patallreduce::selection {

struct Priced {
  ScheduleKey key;
  double price_s;
};

class Pricer {
 public:
  // Of all candidates, or of those that work by node.
  Pricer(int ranks, const Link& link, bool by_node);

  // Every candidate, with the segments that suit it best; the first is the safe one.
  // `forecast` is that of `pattern_class`.
  std::vector<Priced> price(const Bucket& bucket, const PatternClass& pattern_class,
                            const Forecast& forecast);

 private:
  struct Pattern;
  struct Patterns;

  double estimated_s(const Algorithm& candidate, int segments, const Bucket& bucket,
                     const Patterns& patterns) const;
  double flowed_s(const Algorithm& candidate, int segments, const Bucket& bucket,
                  const Patterns& patterns) const;
  double simulated_s(const Algorithm& candidate, const ScheduleKey& key, const Bucket& bucket,
                     const Patterns& patterns);

  int ranks_;
  Link link_;
  bool by_node_;
  Schedules schedules_;
};

}  // namespace patallreduce::selection
