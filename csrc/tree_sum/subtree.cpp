// The choice of the vector level, the levels above a tile, and several columns.
#include "tree_sum/subtree.h"

#include <cstdint>
#include <cstring>
#include <stdexcept>
#include <vector>

#include "errors.h"
#include "reduction/arithmetic.h"
#include "reduction/kernels.h"
#include "tree_sum/subtree_kernels.h"

namespace patallreduce::tree_sum {

using reduction::combine;
using reduction::kernels;
using reduction::size_of;
using reduction::vector_level;

namespace {

constexpr int tile_level = __builtin_ctzll(subtree_tile);

const SubtreeKernels& kernels_named(const std::string& vectors) {
  const std::string level = vectors.empty() ? vector_level() : vectors;
  if (level == "portable") return portable_subtrees();
#if defined(__x86_64__)
  if (level == "avx2" && __builtin_cpu_supports("avx2")) return avx2_subtrees();
  if (level == "avx512" && __builtin_cpu_supports("avx512f") &&
      __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512dq") &&
      __builtin_cpu_supports("avx512vl"))
    return avx512_subtrees();
#endif
  throw std::invalid_argument(
      concat("vectors: \"", level, "\" is unknown or not of this processor"));
}

template <typename T>
void one_column(T* out, const T* in, int level, SubtreeKernel tile,
                void (*combine)(void*, const void*, const void*, std::size_t)) {
  if (level <= tile_level) return tile(out, in, std::size_t(1) << level);
  const std::size_t tiles = std::size_t(1) << (level - tile_level);
  T counter[64];  // the value of level tile_level + i, where bit i of the number of tiles is set
  int held = 0;
  for (std::size_t i = 0; i < tiles; ++i) {
    T value;
    tile(&value, in + i * subtree_tile, subtree_tile);
    for (std::size_t carry = i; carry & 1; carry >>= 1)
      combine(&value, &counter[--held], &value, 1);
    counter[held++] = value;
  }
  *out = counter[0];
}

// `scratch` has room for level rows.
void rows(char* out, const char* in, int level, std::size_t columns, std::size_t row_bytes,
          char* scratch, void (*combine)(void*, const void*, const void*, std::size_t)) {
  if (level == 0) {
    std::memcpy(out, in, row_bytes);
  } else if (level == 1) {
    combine(out, in, in + row_bytes, columns);
  } else {
    rows(out, in, level - 1, columns, row_bytes, scratch, combine);
    rows(scratch, in + (row_bytes << (level - 1)), level - 1, columns, row_bytes,
         scratch + row_bytes, combine);
    combine(out, out, scratch, columns);
  }
}

}  // namespace

void subtree(void* out, const void* in, int level, std::size_t columns, Dtype dtype, Op op,
             const std::string& vectors) {
  PATR_CHECK(dtype == Dtype::float32 || dtype == Dtype::float64, std::invalid_argument,
             "subtree: expected float32 or float64, got ", name(dtype));
  PATR_CHECK(op != Op::avg, std::invalid_argument, "subtree: expected sum, min, max or prod, got ",
             name(op));
  const SubtreeKernels& tiles = kernels_named(vectors);
  const auto combine = kernels().combine[int(dtype)][int(op)];
  if (columns != 1) {
    const std::size_t row_bytes = columns * size_of(dtype);
    std::vector<char> scratch(static_cast<std::size_t>(level) * row_bytes);
    rows(static_cast<char*>(out), static_cast<const char*>(in), level, columns, row_bytes,
         scratch.data(), combine);
  } else if (dtype == Dtype::float64) {
    one_column(static_cast<double*>(out), static_cast<const double*>(in), level,
               tiles.float64[int(op)], combine);
  } else {
    one_column(static_cast<float*>(out), static_cast<const float*>(in), level,
               tiles.float32[int(op)], combine);
  }
}

}  // namespace patallreduce::tree_sum
