// Looks for what makes a job go on soonest, among all candidates.
//
// What a plan is worth is the pace of the job (selection/rollout.h). Without a plan each bucket
// takes what suits it best where all arrive together. First it is found what is fastest from now
// on, for good; what a change to it costs at first, such as ranks that come to be staggered, has to
// pay within 16 iterations. Then, what is fastest this once if that follows. Either has to be
// faster by a share of the pace, under the forecast and under samples around it, so a doubtful
// forecast gets no plan.
#pragma once

#include <vector>

#include "selection/choices.h"
#include "selection/nodes.h"
#include "selection/policy.h"
#include "selection/selector.h"

namespace patallreduce::selection {

class Search {
 public:
  // On one link; margin: as of Planner. `nodes` and `selector`, of calls without a plan, live
  // longer.
  Search(const Nodes& nodes, const Link& link, double margin, Selector& selector);

  // For a forecast of nodes (Nodes::forecast), whose first arrival is at 0.
  Chosen choose(const IterationForecast& forecast);
  // By bucket, of nodes.
  std::vector<ScheduleKey> keys(const Algorithm& algorithm,
                                const IterationForecast& forecast) const;
  // As of Planner, of a forecast of ranks.
  std::vector<double> finish_s(const std::vector<ScheduleKey>& keys,
                               const IterationForecast& arrived);
  // The messages once through a port, and the latencies of a tree.
  double scale_s(const std::vector<Bucket>& buckets) const;

 private:
  std::vector<Way> plain(const std::vector<Bucket>& buckets);
  std::vector<Way> ways(const Algorithm& algorithm, const std::vector<Bucket>& buckets) const;
  void sample(std::vector<Policy>& policies, const IterationForecast& forecast, int runs,
              double (*end_s)(const Policy&));

  const Nodes& nodes_;
  const int ranks_;  // or nodes
  const double margin_;
  const Link link_;
  Selector& selector_;
  Schedules schedules_;
  Rollout rollout_;
};

}  // namespace patallreduce::selection
