#include "selection/pattern.h"

#include <algorithm>
#include <cmath>

#include "errors.h"

namespace patallreduce::selection {

namespace {

constexpr double gap_quanta_per_scale = 16;
constexpr double longest_gap_scales = 4;
constexpr double errors_per_scale = 32;  // smaller ones cannot matter
constexpr int most_error_level = 12;

// Errors count in powers of two.
int error_level(double error_s, double scale_s) {
  const double parts = error_s / scale_s * errors_per_scale;
  if (parts < 1) return 0;
  return 1 + std::ilogb(std::min(parts, std::ldexp(1.0, most_error_level - 1)));
}

double error_s(int level, double scale_s) {
  return level == 0 ? 0 : std::ldexp(scale_s / errors_per_scale * std::sqrt(2.0), level - 1);
}

double quantum_s(int level, double scale_s) {
  return std::max(scale_s / gap_quanta_per_scale, error_s(level, scale_s));
}

std::int32_t longest_gap(double quantum_s, double scale_s) {
  return static_cast<std::int32_t>(
      std::ceil(std::max(longest_gap_scales * scale_s / quantum_s, gap_quanta_per_scale)));
}

// Levels from 0 on, in whole quanta, no gap between two of them longer than `gap`.
void add_levels(const std::vector<double>& values_s, double quantum_s, std::int32_t gap,
                std::vector<std::int32_t>& levels) {
  constexpr double most = 1 << 30;
  const double first_s = *std::min_element(values_s.begin(), values_s.end());
  const std::size_t begin = levels.size();
  std::int32_t highest = 0;
  for (const double value_s : values_s) {
    const double quanta = (value_s - first_s) / quantum_s + 0.5;
    levels.push_back(static_cast<std::int32_t>(std::min(quanta, most)));
    highest = std::max(highest, levels.back());
  }
  if (highest <= gap) return;
  std::vector<std::int32_t> present(levels.begin() + std::ptrdiff_t(begin), levels.end());
  std::sort(present.begin(), present.end());
  present.erase(std::unique(present.begin(), present.end()), present.end());
  std::vector<std::int32_t> shortened(present.size(), 0);
  for (std::size_t i = 1; i < present.size(); ++i) {
    shortened[i] = shortened[i - 1] + std::min(present[i] - present[i - 1], gap);
  }
  for (std::size_t i = begin; i < levels.size(); ++i) {
    const auto found = std::lower_bound(present.begin(), present.end(), levels[i]);
    levels[i] = shortened[std::size_t(found - present.begin())];
  }
}

}  // namespace

void check_values(const char* name, const std::vector<double>& values, int ranks, double least) {
  PATR_CHECK(values.size() == std::size_t(ranks), ScheduleError, "forecast: expected ", ranks,
             " values in ", name, ", got ", values.size());
  for (std::size_t rank = 0; rank < values.size(); ++rank) {
    PATR_CHECK(std::isfinite(values[rank]) && values[rank] >= least, ScheduleError,
               "forecast: expected finite ", name, least == 0 ? " >= 0" : "", ", got ",
               values[rank], " for rank ", rank);
  }
}

void check(const Forecast& forecast, int ranks) {
  check_values("arrivals_s", forecast.arrivals_s, ranks, -HUGE_VAL);
  if (!forecast.errors_s.empty()) check_values("errors_s", forecast.errors_s, ranks, 0);
}

std::uint64_t PatternClass::hash() const {
  std::uint64_t value = 0xcbf29ce484222325;  // FNV-1a, a word at a time
  const auto mix = [&value](std::uint64_t word) {
    value = (value ^ word) * 0x100000001b3;
    value ^= value >> 29;
  };
  mix(elements);
  mix(element_bytes);
  mix(static_cast<std::uint64_t>(quantum));
  for (const std::int32_t level : levels) mix(static_cast<std::uint64_t>(level));
  return value;
}

bool operator==(const PatternClass& a, const PatternClass& b) {
  return a.elements == b.elements && a.element_bytes == b.element_bytes && a.quantum == b.quantum &&
         a.levels == b.levels;
}

void classify(const Forecast& forecast, double scale_s, PatternClass& pattern_class) {
  const std::size_t ranks = forecast.arrivals_s.size();
  std::vector<std::int32_t>& levels = pattern_class.levels;
  levels.clear();
  levels.reserve(2 * ranks);
  std::int32_t ranks_of_level[most_error_level + 1] = {};
  for (const double rank_error_s : forecast.errors_s) {
    ++ranks_of_level[error_level(rank_error_s, scale_s)];
  }
  pattern_class.quantum = 0;
  for (std::size_t below = 0; !forecast.errors_s.empty(); ++pattern_class.quantum) {
    below += std::size_t(ranks_of_level[pattern_class.quantum]);
    if (2 * below > ranks || pattern_class.quantum == most_error_level) break;
  }
  const double quantum = quantum_s(pattern_class.quantum, scale_s);
  add_levels(forecast.arrivals_s, quantum, longest_gap(quantum, scale_s), levels);
  if (forecast.errors_s.empty()) levels.resize(2 * ranks, 0);
  for (const double rank_error_s : forecast.errors_s) {
    levels.push_back(error_level(rank_error_s, scale_s));
  }
}

Forecast representative(const PatternClass& pattern_class, double scale_s) {
  const std::size_t ranks = pattern_class.levels.size() / 2;
  const double quantum = quantum_s(pattern_class.quantum, scale_s);
  Forecast forecast;
  for (std::size_t rank = 0; rank < ranks; ++rank) {
    const std::int32_t* level = &pattern_class.levels[rank];
    forecast.arrivals_s.push_back(level[0] * quantum);
    forecast.errors_s.push_back(error_s(level[ranks], scale_s));
  }
  return forecast;
}

}  // namespace patallreduce::selection
