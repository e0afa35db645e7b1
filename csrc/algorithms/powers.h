// Powers of two among numbers of ranks.
#pragma once

namespace patallreduce::algorithms {

// The largest power of two <= n, n >= 1.
inline int power_of_two_within(int n) {
  int power = 1;
  while (power <= n / 2) power *= 2;
  return power;
}

// n >= 1.
inline int floor_log2(int n) {
  int exponent = 0;
  while (n >>= 1) ++exponent;
  return exponent;
}

}  // namespace patallreduce::algorithms
