#include "selection/samples.h"

#include <cmath>

namespace patallreduce::selection {

namespace {

// In (0, 1): the counter's hash (splitmix64).
double uniform(std::uint64_t counter) {
  std::uint64_t x = (counter + 1) * 0x9e3779b97f4a7c15;
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9;
  x = (x ^ (x >> 27)) * 0x94d049bb133111eb;
  return static_cast<double>((x ^ (x >> 31)) >> 11) * 0x1p-53 + 0x1p-54;
}

}  // namespace

// Box and Muller's.
double normal(std::uint64_t counter) {
  const double pi = std::acos(-1.0);
  return std::sqrt(-2 * std::log(uniform(2 * counter))) *
         std::cos(2 * pi * uniform(2 * counter + 1));
}

}  // namespace patallreduce::selection
