// Turns the reports of all ranks into one plan per iteration. No thread, no clock, no messages.
//
// A plan is decided when every rank has made the last progress report it usually makes, or when the
// first rank asks, having arrived: whichever is earlier. What is missing is filled from history.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "monitor/records.h"
#include "monitor/reports.h"
#include "prediction/predictor.h"
#include "selection/selector.h"

namespace patallreduce {

class Leader {
 public:
  // Nothing: it cannot choose yet.
  using Chooser = std::function<std::optional<ScheduleKey>(
      std::uint64_t elements, std::uint32_t element_bytes, const Forecast& forecast)>;

  explicit Leader(int ranks) : ranks_(ranks) {}

  // Until it is set, plans leave every call its own schedule.
  void set_chooser(Chooser choose) { choose_ = std::move(choose); }

  // Returns the plan that this report made due.
  std::optional<Plan> take(int rank, const Report& report, double now_s, Records& records);

 private:
  struct Rank {
    explicit Rank(std::shared_ptr<Job> job) : predictor(std::move(job)) {}
    Predictor predictor;
    std::int64_t iteration = -1;  // of its newest report
    double start_s = 0;
    bool started = false;
    double newest_edge = 0;  // fraction, of this iteration
    double usual_edge = 0;   // the last one of the iteration before
    double compute_s = -1;   // from start to last arrival, smoothed; < 0: unknown
    bool ready() const { return usual_edge > 0 && newest_edge >= usual_edge; }
  };
  struct Stream {
    std::vector<Rank> ranks;
    std::vector<BucketSize> sizes;  // as the leader's own last iteration had them
    std::int64_t planned = -1;      // newest iteration with a plan
  };

  void enter(Rank& rank, std::int64_t iteration);
  bool due(const Stream& stream, std::int64_t iteration) const;
  Plan decide(Stream& stream, const Stage& stage, double now_s, Records& records);
  Forecast forecast(const Stream& stream, std::size_t bucket, double now_s,
                    std::vector<double>& predicted_s) const;

  int ranks_;
  Chooser choose_;
  std::map<std::int64_t, Stream> streams_;
};

}  // namespace patallreduce
