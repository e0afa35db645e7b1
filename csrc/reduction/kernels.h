// The kernels of one vector level as a table, and the choice of the level.
#pragma once

#include <cstddef>

#include "reduction/reduction.h"

namespace patallreduce::reduction {

struct Kernels {
  const char* level;
  void (*combine[dtype_count][op_count])(void* out, const void* received, const void* held,
                                         std::size_t count);
  // Null for integers.
  void (*scale[dtype_count])(void* out, const void* in, std::size_t count, double scale);
};

const Kernels& portable_kernels();
// x86-64 only; run them only where the processor has the instructions.
const Kernels& avx2_kernels();
const Kernels& avx512_kernels();

// The widest level that processor and PATALLREDUCE_VECTOR allow; decided at the first call.
const Kernels& kernels();

}  // namespace patallreduce::reduction
