// What is known of the ranks of one loop: where each is in its iteration, how long it computes, and
// when it will therefore arrive. Whom the all-reduce lets go late starts late, too.
#pragma once

#include <cmath>
#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "monitor/barriers.h"
#include "monitor/reports.h"
#include "prediction/newest.h"
#include "prediction/predictor.h"
#include "prediction/smoothed.h"
#include "selection/rollout.h"

namespace patallreduce::monitor {

using prediction::Job;
using prediction::Prediction;
using prediction::Predictor;
using selection::IterationForecast;

class Rank {
 public:
  explicit Rank(std::shared_ptr<Job> job) : predictor_(std::move(job)) {}

  std::int64_t iteration() const { return iteration_; }  // of its newest report
  void enter(std::int64_t iteration);
  // Of that iteration; `start`: false if its time cannot be.
  bool start(const Started& report);
  void edge(const EdgeReached& report);
  void ask(const Asked& report);
  // answer_s: what a report and the plan that it brings take on their way.
  void finish(const Arrived& report, double answer_s);
  // The all-reduce is expected to let it go then.
  void expect_result(double at_s) { predictor_.result(at_s); }

  // It has made the last progress report that it usually makes well before its first bucket.
  bool ready() const { return usual_edge_ > 0 && newest_edge_ >= usual_edge_; }
  bool reports_progress() const { return usual_edge_ > 0; }
  bool has_computed(std::int64_t iteration) const;
  // Of the newest iteration with all buckets handed over.
  const std::vector<double>& arrivals_s() const { return arrivals_s_; }
  // By how much later it asked than was predicted; NaN: it has not, or nothing was predicted.
  double asked_later_s() const { return asked_later_s_; }
  double last_arrival_s() const { return last_arrival_s_; }  // of these
  double free_s() const { return free_s_; }
  bool started() const { return started_; }    // its present iteration, as it reported
  double start_s() const { return start_s_; }  // of the last one whose start it reported

  Prediction predict(std::int64_t iteration, std::size_t bucket, double now_s) const;

  // Compared with the median rank. `much_s`: longer by more than that twice in a row, it stays so.
  void computed_longer(double by_s, double much_s);
  const prediction::Smoothed& longer_s() const { return longer_s_; }
  // From its last result to its start, compared with the median rank.
  void paused_longer(double by_s) { pause_longer_s_.add(by_s); }

 private:
  static constexpr double longer_share = 0.3;  // weight of the newest

  Predictor predictor_;
  std::int64_t iteration_ = -1;
  double start_s_ = 0;
  double free_s_ = 0;  // since when it computes: its last result of the iteration before
  bool started_ = false;
  double asked_later_s_ = NAN;
  std::vector<std::pair<double, double>> edges_;  // of this iteration: fraction, time
  double newest_edge_ = 0;                        // of these
  double usual_edge_ = 0;      // the last one of the iteration before that a plan can wait for
  std::int64_t arrived_ = -1;  // newest iteration with all buckets handed over
  std::vector<double> arrivals_s_;
  double last_arrival_s_ = 0;
  prediction::Smoothed longer_s_{longer_share};
  double last_longer_s_ = 0;  // the newest of these
  prediction::Smoothed pause_longer_s_{longer_share};
};

class Ranks {
 public:
  explicit Ranks(int ranks);

  Rank& operator[](int rank) { return ranks_[std::size_t(rank)]; }
  const Rank& operator[](int rank) const { return ranks_[std::size_t(rank)]; }
  int ready(std::int64_t iteration) const;  // how many
  bool report_progress() const;             // all of them, that a plan can wait for
  // Returns true once all have computed it. transfer_s: of its messages.
  bool learn(std::int64_t iteration, double transfer_s);

  // By how much each rank computes longer than the median, again and again.
  std::vector<double> lateness_s() const;
  // By how much the last rank usually does, whoever it is: the median of the newest iterations;
  // NaN before the first.
  double last_s() const { return last_s_.middle(); }
  // Between iterations, or before all buckets are ready: starts tell of the first kind, though
  // ranks compute for different times; arrivals of both.
  bool barrier() const { return at_starts_.seen() || at_arrivals_.seen(); }
  // How long it may pay to wait for what ranks can tell: no longer than the most doubtful of them
  // may be late or early. Who is silent though something of it was due is in doubt.
  double doubt_s(std::int64_t iteration, std::size_t buckets, double now_s) const;
  // No buckets: there is nothing to go by yet. A rank's errors are those of its last bucket.
  // predicted_s: the same by bucket and rank, NaN for ranks of which nothing is known.
  IterationForecast forecast(std::int64_t iteration, const std::vector<selection::Bucket>& buckets,
                             double now_s, std::vector<std::vector<double>>& predicted_s) const;
  // What came of the iteration that was learned last; no buckets: it is not known.
  IterationForecast arrived(const std::vector<selection::Bucket>& buckets) const;
  // By rank, when the all-reduce is expected to let it go.
  void expect_results(const std::vector<double>& finish_s);

 private:
  double all_later_s(std::int64_t iteration) const;
  bool predict(std::int64_t iteration, std::size_t bucket, double now_s,
               std::vector<double>& predicted_s, IterationForecast& forecast) const;

  std::vector<Rank> ranks_;
  Barriers at_starts_, at_arrivals_;
  bool learned_ = false;
  prediction::Newest last_s_{15};  // by how much the last rank computed longer
  double compute_s_ = 0;           // the median rank's, smoothed; known once learned
};

}  // namespace patallreduce::monitor
