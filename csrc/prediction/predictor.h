// Predicts when one rank will arrive, from its earlier iterations and its progress in this one.
//
// Pure: it reads no clock. All times are seconds on one common clock.
#pragma once

#include <cstddef>
#include <vector>

namespace patallreduce {

struct Prediction {
  double arrival_s = 0;
  double error_s = 0;  // standard deviation expected of it, from how wrong it was before
  bool known = false;  // false: nothing has been seen to predict from
};

class Predictor {
 public:
  // A new iteration began. An unfinished one is forgotten.
  void start(double at_s);
  // A part of the computation was done at `at_s`: 0 < fraction < 1, in any order, doubled or wrong.
  void edge(double fraction, double at_s);
  // The iteration's true arrivals, one per bucket (their number may change: history restarts).
  void finish(const std::vector<double>& arrivals_s);

  // What is known at `now_s`: an edge that has not come yet is information too. Always >= now_s if
  // the bucket has not arrived.
  Prediction predict(std::size_t bucket, double now_s) const;
};

}  // namespace patallreduce
