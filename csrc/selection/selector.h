// Chooses algorithm and segments for a bucket under predicted arrivals, by simulation.
//
// Objective: the time of the job's iteration, not of one collective. Rank r arrives next at about
// finish_r + compute_r, so the price of a choice is max_r(finish_r + compute_r) - a rank that
// computes longer again and again is freed first - with the average elapsed as a small second
// term. The price is averaged over a few patterns sampled from the prediction's uncertainty
// (deterministic: every call with equal input gives equal output), so a doubtful prediction chooses
// a safe schedule.
#pragma once

#include <cstdint>
#include <vector>

#include "schedule/schedule_key.h"
#include "simulator/simulator.h"

namespace patallreduce {

// One value per rank, seconds.
struct Forecast {
  std::vector<double> arrivals_s;  // any clock
  std::vector<double> errors_s;    // standard deviation of the arrival; empty: certain
  std::vector<double> compute_s;   // from having a result to the next arrival; empty: equal
};

struct Choice {
  ScheduleKey key;     // arrivals_s normalised to the pattern class: >= 0, few distinct values
  double price_s = 0;  // the objective, relative to the first predicted arrival
};

class Selector {
 public:
  Selector(int ranks, Link link);
  // Throws ScheduleError if the forecast is not (ranks) finite numbers.
  Choice choose(std::uint64_t elements, std::size_t element_bytes, const Forecast& forecast);
};

}  // namespace patallreduce
