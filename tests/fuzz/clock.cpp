// The simulated clock of fuzzed programs: only they move it.
#include "clock.h"

#include "fuzz_clock.h"

namespace patallreduce {

double fuzz::simulated_s = 1;

double now_s() { return fuzz::simulated_s; }

}  // namespace patallreduce
