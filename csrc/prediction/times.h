// Which numbers can be times. A clock that jumped or a torn message must not reach an average,
// where it would stay.
#pragma once

#include <cmath>

namespace patallreduce::prediction {

// 30,000 years: beyond it a double no longer tells milliseconds apart.
inline bool is_time(double at_s) { return std::abs(at_s) <= 1e12; }  // false for NaN

// An iteration of more than twelve days is a clock that jumped.
constexpr double longest_s = 1e6;
inline bool is_duration(double seconds_s) { return seconds_s >= 0 && seconds_s <= longest_s; }

}  // namespace patallreduce::prediction
