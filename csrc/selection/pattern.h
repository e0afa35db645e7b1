// Pattern classes: forecasts that may as well be treated alike.
//
// Predictions jitter; a choice that followed every microsecond would never be found again, neither
// here nor among the executor's prepared programs. So times are counted in quanta of a sixteenth of
// what a collective takes at best, or of the prediction's own error if that is larger. Ranks within
// one quantum tie. A gap between arrivals counts up to four such times: whatever can be done in
// the shadow of a late rank is done by then. Gaps stay gaps, so the order of very late ranks stays.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace patallreduce::selection {

// One value per rank, seconds.
struct Forecast {
  std::vector<double> arrivals_s;  // any clock
  std::vector<double> errors_s;    // standard deviation of the arrival; empty: certain
};

// Throws ScheduleError, naming rank and value: one finite value per rank, >= least.
void check_values(const char* name, const std::vector<double>& values, int ranks, double least);
void check(const Forecast& forecast, int ranks);

struct PatternClass {
  std::uint64_t elements = 0;
  std::size_t element_bytes = 0;
  int quantum = 0;                   // error level of the median rank
  std::vector<std::int32_t> levels;  // per rank: arrival; then error

  std::uint64_t hash() const;
};

bool operator==(const PatternClass& a, const PatternClass& b);

// Fills in quantum and levels. scale_s > 0: what a collective takes at best.
void classify(const Forecast& forecast, double scale_s, PatternClass& pattern_class);

// The forecast that stands for a class: arrivals begin with 0.
Forecast representative(const PatternClass& pattern_class, double scale_s);

}  // namespace patallreduce::selection
