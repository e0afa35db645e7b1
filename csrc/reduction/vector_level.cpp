// Chooses the vector level once per process: what the processor has, narrowed by the environment.
#include <algorithm>
#include <cstdlib>
#include <stdexcept>
#include <string>
#include <vector>

#include "errors.h"
#include "reduction/kernels.h"

namespace patallreduce::reduction {

namespace {

// Narrowest first.
std::vector<const Kernels*> available() {
  std::vector<const Kernels*> levels{&portable_kernels()};
#if defined(__x86_64__)
  // These ask the operating system too, which must save the registers.
  if (!__builtin_cpu_supports("avx2") || !__builtin_cpu_supports("f16c")) return levels;
  levels.push_back(&avx2_kernels());
  if (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
      __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl"))
    levels.push_back(&avx512_kernels());
#endif
  return levels;
}

const Kernels& choose() {
  const std::vector<std::string> names{"portable", "avx2", "avx512"};
  const char* wanted = std::getenv("PATALLREDUCE_VECTOR");
  std::size_t limit = names.size();
  if (wanted && *wanted) {
    const auto found = std::find(names.begin(), names.end(), wanted);
    PATR_CHECK(found != names.end(), std::invalid_argument,
               "PATALLREDUCE_VECTOR: expected portable, avx2 or avx512, got \"", wanted, "\"");
    limit = static_cast<std::size_t>(found - names.begin()) + 1;
  }
  const std::vector<const Kernels*> levels = available();
  return *levels[std::min(limit, levels.size()) - 1];
}

}  // namespace

const Kernels& kernels() {
  static const Kernels& chosen = choose();
  return chosen;
}

const char* vector_level() { return kernels().level; }

}  // namespace patallreduce::reduction
