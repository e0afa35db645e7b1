// The tile kernels of one vector level as a table.
#pragma once

#include <cstddef>

#include "reduction/reduction.h"

namespace patallreduce::tree_sum {

using reduction::op_count;

constexpr std::size_t subtree_tile = 4096;  // elements: 32 KiB of float64

// The tree over `count` elements, a power of two <= subtree_tile, into *out.
using SubtreeKernel = void (*)(void* out, const void* in, std::size_t count);

struct SubtreeKernels {
  SubtreeKernel float32[op_count];
  SubtreeKernel float64[op_count];
};

const SubtreeKernels& portable_subtrees();
// x86-64 only; run them only where the processor has the instructions.
const SubtreeKernels& avx2_subtrees();
const SubtreeKernels& avx512_subtrees();

}  // namespace patallreduce::tree_sum
