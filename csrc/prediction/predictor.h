// Predicts when one rank will arrive, from its earlier iterations and its progress in this one.
//
// Pure: it reads no clock. All times are seconds on one common clock. Nothing that comes in can
// throw or make a prediction that is not finite: what cannot be is dropped (times.h).
//
// Three ideas, a file each: what earlier iterations say (history.h), what this iteration's edges
// say (edges.h), and which of these was right for this job (job.h). The leader of P ranks holds P
// predictors that share one Job, so that one iteration teaches P lessons.
//
//   cost    under 1 us per call; 4 kB and 0.1 kB per bucket: P = 1,000 with 10 buckets in 5 MB
//   source  the monitor of Proficz, J. Supercomput. 74 (2018), section 3; the predictors of
//           Marendic et al., Euro-Par 2016, section 4
#pragma once

#include <array>
#include <cmath>
#include <cstddef>
#include <memory>
#include <vector>

#include "prediction/components.h"
#include "prediction/edges.h"
#include "prediction/history.h"
#include "prediction/job.h"
#include "prediction/pause.h"

namespace patallreduce::prediction {

struct Prediction {
  double arrival_s = 0;
  // Standard deviation expected of it, from how wrong it was before. Among several ranks: against
  // the others' arrivals; what moves all alike changes no order and costs no schedule anything.
  double error_s = 0;
  bool known = false;    // false: nothing has been seen to predict from
  double silence_s = 0;  // by so much it is later because what was expected has not come yet
};

class Predictor {
 public:
  Predictor() : Predictor(std::make_shared<Job>(1)) {}
  // Learns together with the other predictors of `job`.
  explicit Predictor(std::shared_ptr<Job> job);

  // A new iteration began. An unfinished one is forgotten.
  void start(double at_s);
  // A part of the computation was done at `at_s`: 0 < fraction < 1, in any order, doubled or wrong.
  void edge(double fraction, double at_s);
  // The last result of the iteration that ended is expected at `at_s`; the next one starts then.
  void result(double at_s);
  // A bucket of the current iteration has arrived: nothing is left to predict for it.
  void arrive(std::size_t bucket, double at_s);
  // The iteration's true arrivals, one per bucket (their number may change: history restarts).
  void finish(const std::vector<double>& arrivals_s);

  // What is known at `now_s`: an edge that has not come yet is information too. Always >= now_s if
  // the bucket has not arrived. `pauses_apart_s`: by how much this rank's pause before the
  // iteration usually differs from those of others.
  Prediction predict(std::size_t bucket, double now_s, double pauses_apart_s = HUGE_VAL) const;

  // What each component says of it, NaN where it says nothing.
  Components components(std::size_t bucket, double now_s) const;
  // The one that predict() follows now.
  Component chosen() const;

 private:
  const Pause& pause() const {
    return result_.known() && result_.error_s() < arrival_.error_s() ? result_ : arrival_;
  }
  bool known_start(double* start_s) const;
  Components offsets_s(const Edge* edge) const;  // of the last arrival, from the start
  double shift_s(std::size_t bucket) const;      // of a bucket against the last arrival
  double bounded_s(double offset_s, double shift_s, double start_s, double now_s) const;
  bool usable(const std::vector<double>& arrivals_s, double* last_s) const;
  void learn(const std::vector<double>& arrivals_s, double last_s);
  void take_errors();
  void grade(const Edge* edge, double last_s);

  std::shared_ptr<Job> job_;
  JobMember member_;
  History last_;                 // last arrival - start
  std::vector<History> shifts_;  // of each bucket's arrival against the last one
  Edges edges_;
  std::vector<double> arrived_s_;       // of this iteration; NaN: not yet
  std::array<double, depths> squares_;  // of recent errors of what predict() says; < 0: none
  Pause arrival_, result_;  // from the newest iteration's last arrival, and from its last result
  double start_s_ = 0;
  bool started_ = false, assumed_ = false;  // the start was seen; it was guessed from an edge
};

}  // namespace patallreduce::prediction
