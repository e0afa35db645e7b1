// The clock of all times: CLOCK_MONOTONIC, which is Python's time.monotonic().
#pragma once

#include <chrono>

namespace patallreduce {

#ifdef PATALLREDUCE_SIMULATED_TIME
double now_s();  // of tests/interleavings
#else
inline double now_s() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}
#endif

}  // namespace patallreduce
