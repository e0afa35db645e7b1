// Turns the reports of all ranks into one plan per iteration. No thread, no clock, no messages.
//
// A plan is decided when every rank has made the last progress report it usually makes. When a rank
// asks, having arrived, the others have a little longer: until half of the ranks have asked, or for
// the time of one transfer of the iteration's buckets. A rank that its last all-reduce let go
// before the others is also the first to come back, when nobody else has reported anything yet; and
// one rank's start cannot shorten an all-reduce by more than that. What is missing is filled from
// history, and silence counts: who should have reported by now is late.
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
#include "selection/selector.h"

namespace patallreduce::monitor {

using prediction::Job;
using prediction::Prediction;
using prediction::Predictor;
using schedule::ScheduleKey;
using selection::Forecast;

class Leader {
 public:
  // Nothing: it cannot choose yet.
  using Chooser = std::function<std::optional<ScheduleKey>(
      std::uint64_t elements, std::uint32_t element_bytes, const Forecast& forecast)>;

  explicit Leader(int ranks) : ranks_(ranks) {}

  // Until it is set, plans leave every call its own schedule, and are decided when the first rank
  // asks. `patience_s_per_byte`: how long a rank that asks may wait for half of the others.
  void set_chooser(Chooser choose, double patience_s_per_byte = 0) {
    choose_ = std::move(choose);
    patience_s_per_byte_ = patience_s_per_byte;
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
    bool started = false;
    double newest_edge = 0;          // fraction, of this iteration
    double usual_edge = 0;           // the last one of the iteration before
    std::int64_t arrived = -1;       // newest iteration with all buckets handed over
    std::vector<double> arrivals_s;  // of that
    double compute_s = -1;           // from start to last arrival, smoothed; < 0: unknown
    double compute_spread_s = 0;     // how far single ones are from it, smoothed
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
    std::int64_t planned = -1;              // newest iteration with a plan
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
  bool waited_enough(Loop& loop, std::int64_t iteration, double now_s) const;
  Plan decide(Loop& loop, const IterationId& id, double now_s, Records& records);
  Forecast forecast(const Loop& loop, std::int64_t iteration, std::size_t bucket, double now_s,
                    std::vector<double>& predicted_s) const;
  static Prediction predict(const Rank& rank, std::int64_t iteration, std::size_t bucket,
                            double now_s);

  int ranks_;
  Chooser choose_;
  double patience_s_per_byte_ = 0;
  std::map<std::int64_t, Loop> loops_;
};

}  // namespace patallreduce::monitor
