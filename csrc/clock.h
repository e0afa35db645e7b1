// The clock of all times: CLOCK_MONOTONIC, which is Python's time.monotonic().
#pragma once

#include <time.h>

#include <chrono>

namespace patallreduce {

#ifdef PATALLREDUCE_SIMULATED_TIME
double now_s();  // of tests/interleavings
inline double thread_s() { return now_s(); }
#else
inline double now_s() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}
// What this thread has had of a processor.
inline double thread_s() {
  timespec time;
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
  return static_cast<double>(time.tv_sec) + 1e-9 * static_cast<double>(time.tv_nsec);
}
#endif

}  // namespace patallreduce
