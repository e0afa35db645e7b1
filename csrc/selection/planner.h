// Plans an iteration: how each of its buckets is reduced, so that the job goes on soonest.
//
// What a plan is worth is the pace of the job (selection/rollout.h). Without a plan each bucket
// takes what suits it best where all arrive together. First it is found what is fastest from now
// on, for good; what a change to it costs at first, such as ranks that come to be staggered, has to
// pay within 16 iterations. Then, what is fastest this once if that follows. Either has to be
// faster by a share of the pace, under the forecast and under samples around it, so a doubtful
// forecast gets no plan.
//
// Ranks that share nodes are planned as nodes (selection/nodes.h).
//
// As in selection/pattern.h, forecasts that may as well be treated alike are: times count in
// quanta, and what was chosen for the first of them is remembered. The order of ranks in a plan is
// each forecast's own. Who cannot wait for a choice takes the usual one (selection/choices.h), and
// has the planner work out afterwards what would have been best.
#pragma once

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <mutex>
#include <optional>
#include <vector>

#include "selection/choices.h"
#include "selection/nodes.h"
#include "selection/policy.h"
#include "selection/selector.h"

namespace patallreduce::selection {

struct IterationPlan {
  std::vector<ScheduleKey> keys;  // by bucket; empty: no plan is faster
  // Of an iteration, seconds; what all ranks compute is in it.
  double pace_s = 0, plain_pace_s = 0;  // with these keys, without a plan
};

class Planner {  // thread-safe
 public:
  // By what share of the pace a plan has to be faster, or less where computation takes long. Models
  // are no better than that.
  static constexpr double usual_margin = 0.015;

  // link, node_of, rules: as of Selector. Throws ScheduleError if ranks < 1, or one of them makes
  // no sense.
  Planner(int ranks, Link link, double margin = usual_margin,
          std::vector<std::int32_t> node_of = {}, double most_wait = HUGE_VAL,
          TunedRules rules = {});
  Planner(const Planner&) = delete;

  // Throws ScheduleError unless every bucket has (ranks) finite arrivals, and errors, computations
  // and spreads are >= 0.
  IterationPlan plan(const IterationForecast& forecast);
  // As plan(); but what would take long to work out is left to catch_up() where the usual choice
  // suits the forecast, or where all ranks would wait for more than most_wait of an iteration. Then
  // nothing is known of it.
  std::optional<IterationPlan> plan_at_once(const IterationForecast& forecast);
  // Works out what the newest of these was to be. False: nothing is left, or, unless it `confirms`,
  // that was the usual choice of several that agreed.
  bool catch_up(bool confirms = true);
  double latency_s() const;
  // How wide each rank's port is, bytes per second; empty: ranks share nodes.
  std::vector<double> ports() const;
  // Another network from here on, though calls without a plan keep to the one before. One for each
  // rank, > 0; not where ranks share nodes.
  void set_ports(const std::vector<double>& bytes_per_s);
  // When each rank has its last result of an iteration with these keys, or without a plan, whose
  // arrivals are known. Empty where that would take long to simulate.
  std::vector<double> finish_s(const std::vector<ScheduleKey>& keys,
                               const IterationForecast& arrived);

 private:
  struct Left {  // to be worked out
    std::vector<double> in_quanta;
    IterationForecast forecast;
    bool usual = false;
  };

  std::optional<IterationPlan> plan(const IterationForecast& told, bool at_once);
  const Chosen* work_out(Left left);
  double scale_s(const std::vector<Bucket>& buckets) const;
  std::vector<Way> plain(const std::vector<Bucket>& buckets);
  std::vector<Way> ways(const Algorithm& algorithm, const std::vector<Bucket>& buckets) const;
  void sample(std::vector<Policy>& policies, const IterationForecast& forecast, int runs,
              double (*end_s)(const Policy&));
  Chosen choose(const IterationForecast& forecast);
  std::vector<ScheduleKey> keys(const Algorithm& algorithm, const IterationForecast& forecast,
                                double quantum_s) const;

  const Nodes nodes_;
  const int ranks_;  // or nodes
  const double margin_, most_wait_;
  mutable std::mutex mutex_;  // over all below
  Link link_;
  Selector selector_;  // of the link as it was at first: of calls without a plan
  Schedules schedules_;
  Rollout rollout_;
  Choices choices_;
  std::optional<Left> left_;
  double wait_ = 0;  // for the last that was worked out, of its iteration
};

}  // namespace patallreduce::selection
