// Turns the reports of all ranks into one plan per iteration. No thread, no clock, no messages.
//
// A plan is decided when every rank has made the last progress report that it usually makes well
// before its first bucket is ready. When a rank asks, having arrived, the others have a little
// longer: until half of the ranks have asked, or for the time of one transfer of the iteration's
// buckets, or not at all where no prediction is in doubt. A rank that its last all-reduce let go
// before the others is also the first to come back, when nobody else has reported anything yet; and
// one rank's start cannot shorten an all-reduce by more than that. What is missing is filled from
// history, and silence counts: who should have reported by now is late. Who has not started yet
// starts when the simulated all-reduce lets it go.
//
// Where the loop was measured to be faster without plans (monitor/guard.h), an empty plan is
// decided as soon as all ranks have started, so that nobody has to wait for it.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "monitor/guard.h"
#include "monitor/records.h"
#include "monitor/reports.h"
#include "prediction/predictor.h"
#include "selection/planner.h"

namespace patallreduce::monitor {

using prediction::Job;
using prediction::Prediction;
using prediction::Predictor;
using schedule::ScheduleKey;
using selection::IterationForecast;
using selection::IterationPlan;

class Leader {
 public:
  struct Chooser {
    // Nothing: it cannot choose yet.
    std::function<std::optional<IterationPlan>(const IterationForecast&)> plan;
    // When each rank has its last result with these keys (none: no plan), whose arrivals are known.
    // Optional; empty: it cannot tell.
    std::function<std::vector<double>(const std::vector<ScheduleKey>&, const IterationForecast&)>
        finish_s;
  };

  explicit Leader(int ranks) : ranks_(ranks) {}

  // Until it is set, plans leave every call its own schedule, and are decided when the first rank
  // asks. `patience_s_per_byte`: how long a rank that asks may wait for half of the others.
  // `guarded`: plans that were measured to be slower than none are given up.
  void set_chooser(Chooser choose, double patience_s_per_byte = 0, bool guarded = true) {
    choose_ = std::move(choose);
    patience_s_per_byte_ = patience_s_per_byte;
    guarded_ = guarded;
  }

  // Returns the plan that this report made due. `now_s`: finite, of the leader's own clock; what
  // ranks report may be anything.
  std::optional<Plan> take(int rank, const Report& report, double now_s, Records& records);
  // A plan that is due because whoever asked has waited long enough; call until there is none.
  std::optional<Plan> overdue(double now_s, Records& records);
  // When overdue() will have one; infinite: not before another report.
  double next_overdue_s() const;
  // What was measured of a loop with and without plans.
  std::optional<Guard> guard(std::int64_t loop) const;

 private:
  struct Rank {
    explicit Rank(std::shared_ptr<Job> job) : predictor(std::move(job)) {}
    Predictor predictor;
    std::int64_t iteration = -1;  // of its newest report
    double start_s = 0;
    double free_s = 0;  // since when it computes: its last result of the iteration before
    bool started = false;
    std::vector<std::pair<double, double>> edges;  // of this iteration: fraction, time
    double newest_edge = 0;                        // of these
    double usual_edge = 0;      // the last one of the iteration before that a plan can wait for
    std::int64_t arrived = -1;  // newest iteration with all buckets handed over
    std::vector<double> arrivals_s;  // of that
    double computed_s = 0;           // from free_s to the last of them
    double longer_s = 0;             // than the median rank's, smoothed
    double spread_s = 0;             // how far single ones are from that, smoothed
    void finish(const Arrived& report);
    bool ready() const { return usual_edge > 0 && newest_edge >= usual_edge; }
  };
  struct Asking {  // for the plan of one iteration
    int ranks = 0;
    double until_s = 0;
  };
  struct Loop {
    std::vector<Rank> ranks;
    std::vector<BucketSize> sizes;          // as the leader's own last iteration had them
    std::int64_t learned = -1;              // newest iteration that all ranks have computed
    double compute_s = 0;                   // the median rank's, smoothed; known with `learned`
    std::int64_t planned = -1;              // newest iteration with a plan
    std::vector<ScheduleKey> keys;          // of that plan
    std::map<std::int64_t, Asking> asking;  // by iteration: asked for, not decided
    std::int64_t starting = -1;             // newest iteration that a rank has started
    int started = 0;                        // ranks that have
    Guards guards;
  };

  void enter(Rank& rank, std::int64_t iteration);
  void start(Loop& loop, const IterationId& id, const Records& records) const;
  bool goes_without(Loop& loop, std::int64_t iteration) const;
  double transfer_s(const BucketSize& size) const;
  double transfer_s(const Loop& loop) const;
  std::vector<double> lateness_s(const Loop& loop) const;
  bool due(const Loop& loop, std::int64_t iteration) const;
  double doubt_s(const Loop& loop, std::int64_t iteration, double now_s) const;
  bool waited_enough(Loop& loop, std::int64_t iteration, double now_s) const;
  Plan decide(Loop& loop, const IterationId& id, double now_s, Records& records);
  void learn(Loop& loop, std::int64_t iteration) const;
  void expect_results(Loop& loop, std::int64_t iteration) const;
  IterationForecast forecast(const Loop& loop, std::int64_t iteration, double now_s,
                             std::vector<std::vector<double>>& predicted_s) const;
  bool predict(const Loop& loop, std::int64_t iteration, std::size_t bucket, double now_s,
               std::vector<double>& predicted_s, IterationForecast& forecast) const;
  static Prediction predict(const Rank& rank, std::int64_t iteration, std::size_t bucket,
                            double now_s);

  int ranks_;
  Chooser choose_;
  double patience_s_per_byte_ = 0;
  bool guarded_ = true;
  std::map<std::int64_t, Loop> loops_;
};

}  // namespace patallreduce::monitor
