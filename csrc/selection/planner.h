// Plans an iteration: how each of its buckets is reduced, so that the job goes on soonest.
//
// What a plan is worth is the pace of the job (selection/rollout.h). Without a plan each bucket
// takes what suits it best where all arrive together. A plan has to be faster than that by a share
// of the pace, under the forecast and under samples around it (deterministic: equal input, equal
// output), so a doubtful forecast gets no plan.
//
// As in selection/pattern.h, forecasts that may as well be treated alike are: times count in
// quanta, and what was planned is remembered.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <mutex>
#include <vector>

#include "selection/rollout.h"
#include "selection/selector.h"

namespace patallreduce::selection {

struct IterationPlan {
  std::vector<ScheduleKey> keys;  // by bucket; empty: no plan is faster
  // Of an iteration, seconds; what all ranks compute is in it.
  double pace_s = 0, plain_pace_s = 0;  // with these keys, without a plan
};

class Planner {  // thread-safe
 public:
  // By what share of the pace a plan has to be faster. Models are no better than that.
  static constexpr double usual_margin = 0.015;

  // Throws ScheduleError if ranks < 1 or the link makes no sense.
  Planner(int ranks, Link link, double margin = usual_margin);
  Planner(const Planner&) = delete;

  // Throws ScheduleError unless every bucket has (ranks) finite arrivals, and errors, computations
  // and spreads are >= 0.
  IterationPlan plan(const IterationForecast& forecast);

 private:
  double scale_s(const std::vector<Bucket>& buckets) const;
  std::vector<Way> plain(const std::vector<Bucket>& buckets);
  IterationPlan price(const IterationForecast& forecast, double quantum_s);
  std::vector<ScheduleKey> keys(const Algorithm& algorithm, const IterationForecast& forecast,
                                double quantum_s) const;

  const int ranks_;
  const Link link_;
  const double margin_;
  std::mutex mutex_;  // over all below
  Selector selector_;
  Schedules schedules_;
  Rollout rollout_;
  std::map<std::vector<double>, IterationPlan> known_;  // by forecast, in quanta
};

}  // namespace patallreduce::selection
