// The value of one complete subtree that lies in memory: 2^level elements, combined as neighbours.
//
//   level 3   (((0+1) + (2+3)) + ((4+5) + (6+7)))
//
// Vector code pairs neighbours too, so it has the bits of the scalar tree: L vectors of L elements
// become one vector of L sums by log2 L steps, each of two shuffles and one addition per pair of
// vectors. Tiles fit the first-level cache; above them a binary counter holds one value per level,
// so memory is read once, in order, whatever the size.
//
//   cost     2^level elements read once, O(level) values kept
//   source   Stelz (2022), section 3.1.4, Algorithm 4 (eight elements with AVX2)
//
// Arithmetic is that of reduction/: a NaN operand makes a NaN, -0 is smaller than +0.
#pragma once

#include <cstddef>
#include <string>

#include "reduction/reduction.h"

namespace patallreduce::tree_sum {

using reduction::Dtype;
using reduction::Op;

// out[j] = the tree over in[i * columns + j], i = 0 ... 2^level - 1, for every j < columns.
// float32 and float64, not avg. `vectors`: "portable", "avx2" or "avx512" for tests, else empty.
// Throws std::invalid_argument for another dtype or op, or vectors the processor does not have.
void subtree(void* out, const void* in, int level, std::size_t columns, Dtype dtype, Op op,
             const std::string& vectors = "");

}  // namespace patallreduce::tree_sum
