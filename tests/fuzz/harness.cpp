#include "harness.h"

#include "clock.h"

namespace patallreduce {

double fuzz::simulated_s = 1;

double now_s() { return fuzz::simulated_s; }

}  // namespace patallreduce

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  patallreduce::fuzz::Input input(data, size);
  patallreduce::fuzz::run(input);
  return 0;
}
