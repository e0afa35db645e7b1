// Plans an iteration: how each of its buckets is reduced, so that the job goes on soonest.
//
// How that is found: selection/search.h. Ranks that share nodes are planned as nodes
// (selection/nodes.h). As in selection/pattern.h, forecasts that may as well be treated alike are:
// times count in quanta, and what was chosen for the first of them is remembered. The order of
// ranks in a plan is each forecast's own. Who cannot wait for a choice takes the usual one
// (selection/choices.h), and has the planner work out afterwards what would have been best; plans
// do not wait for that either.
#pragma once

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <mutex>
#include <optional>
#include <vector>

#include "selection/choices.h"
#include "selection/nodes.h"
#include "selection/search.h"
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
  // Works out what the newest of these was to be, from any thread. False: nothing is left, or,
  // unless it `confirms`, that was the usual choice of several that agreed.
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
  struct WorkedOut {
    Chosen chosen;
    double took_s;  // of a processor
  };

  std::optional<IterationPlan> plan(const IterationForecast& told, bool at_once);
  static WorkedOut work_out(Search& search, const IterationForecast& forecast);
  const Chosen* note(Left left, const WorkedOut& found);

  const Nodes nodes_;
  const int ranks_;  // or nodes
  const double margin_, most_wait_;
  mutable std::mutex mutex_;  // over all below, but for what catching_up_ is over
  Link link_;
  int network_ = 0;    // how often it was another one
  Selector selector_;  // of the link as it was at first: of calls without a plan
  std::optional<Search> search_;
  Choices choices_;
  std::optional<Left> left_;
  double wait_ = 0;                   // for the last that was worked out, of its iteration
  std::mutex catching_up_;            // before mutex_
  std::optional<Search> afterwards_;  // another one: for what was left
  int network_of_afterwards_ = 0;
};

}  // namespace patallreduce::selection
