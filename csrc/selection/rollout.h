// What becomes of a job whose buckets are reduced in a certain way: its next iterations, simulated.
//
// Buckets in flight share the ranks' ports, and whom an all-reduce lets go late arrives late at the
// next one. So ways are not compared by one collective but by how far the job has come after some
// iterations: all buckets of an iteration run on shared ports (pricing/simulation.h), and each rank
// computes from its last result to its next arrivals.
#pragma once

#include <array>
#include <cmath>
#include <cstddef>
#include <vector>

#include "selection/forecast.h"
#include "selection/schedules.h"

namespace patallreduce::selection {

// How one bucket is reduced.
struct Way {
  const Algorithm* algorithm;
  int segments;
  bool planned = true;  // for the arrivals that are expected; otherwise for all of them together
};

constexpr int look_ahead = 8;  // iterations
// More are in closed form, bucket after bucket, where there is one.
constexpr int most_simulated_ranks = 64;

using Ends = std::array<double, look_ahead>;

inline Ends no_limits() {
  Ends limits_s;
  limits_s.fill(HUGE_VAL);
  return limits_s;
}

class Rollout {
 public:
  Rollout(int ranks, const Link& link) : ranks_(ranks), link_(link), schedules_(ranks, link) {}

  // When the last rank has computed again, after each iteration, by the forecast's clock. Sample 0
  // is as forecast; samples 2 n - 1 and 2 n are to either side of it. By bucket, ways: of this
  // iteration; then: of the next ones. Infinite from the first one on that is after its limit.
  Ends ends_s(const std::vector<Way>& ways, const std::vector<Way>& then,
              const IterationForecast& forecast, int sample, const Ends& limits_s = no_limits());
  // That are simulated of an iteration whose buckets are all reduced so; closed forms have none.
  std::size_t messages(const Way& way, std::size_t buckets);

  // When each rank has its last result of one iteration. What is simulated knows nothing of what is
  // not. By bucket and rank, expected_s: what schedules are made from; real_s: when ranks arrive.
  std::vector<double> finish_s(const std::vector<Way>& ways, const std::vector<Bucket>& buckets,
                               const std::vector<std::vector<double>>& expected_s,
                               const std::vector<std::vector<double>>& real_s,
                               pricing::PortsBusy& busy);

 private:
  struct Iteration;

  bool estimates(const Algorithm& algorithm) const {
    return ranks_ > most_simulated_ranks && algorithm.pricing.estimate;
  }
  void estimate(const Way& way, const Bucket& bucket, const std::vector<double>& expected_s,
                std::vector<double> real_s, std::vector<double>& last_s) const;

  int ranks_;
  Link link_;
  Schedules schedules_;
};

}  // namespace patallreduce::selection
