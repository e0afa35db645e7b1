// The public operations, over the kernels of the chosen vector level.
//
// The kernels know one form only, out = received OP held. A second destination and a scale are
// added tile by tile, while the tile is in the first-level cache: main memory still sees one
// pass, and there is one loop per dtype and op instead of four.
#include "reduction/reduction.h"

#include <algorithm>
#include <cstring>
#include <stdexcept>

#include "errors.h"
#include "reduction/float_mode.h"
#include "reduction/kernels.h"

namespace patallreduce::reduction {

namespace {

// Up to four tiles are live (received, scaled held, out, also): half of a 32 KiB cache.
constexpr std::size_t tile_bytes = 4096;

void copy(void* out, const void* in, std::size_t bytes) {
  if (out != in && bytes > 0) std::memcpy(out, in, bytes);
}

template <typename T>
void divide_all(void* data, std::size_t count, std::int64_t divisor) {
  T* const values = static_cast<T*>(data);
  for (std::size_t i = 0; i < count; ++i) values[i] = T(values[i] / divisor);
}

}  // namespace

void combine(void* out, void* also, const void* received, const void* held, std::size_t count,
             Dtype dtype, Op op, double scale) {
  const DefaultFloatMode mode;
  const Kernels& kernels = reduction::kernels();
  const auto combine_tile = kernels.combine[int(dtype)][int(op)];
  const auto scale_tile = scale == 1 ? nullptr : kernels.scale[int(dtype)];
  if (!also && !scale_tile) return combine_tile(out, received, held, count);

  alignas(64) unsigned char scaled[tile_bytes];
  const std::size_t element_bytes = size_of(dtype);
  const std::size_t bytes = count * element_bytes;
  for (std::size_t at = 0; at < bytes; at += tile_bytes) {
    const std::size_t here_bytes = std::min(tile_bytes, bytes - at);
    const std::size_t here = here_bytes / element_bytes;
    const void* held_tile = static_cast<const char*>(held) + at;
    if (scale_tile) {
      scale_tile(scaled, held_tile, here, scale);
      held_tile = scaled;
    }
    char* const out_tile = static_cast<char*>(out) + at;
    combine_tile(out_tile, static_cast<const char*>(received) + at, held_tile, here);
    if (also) copy(static_cast<char*>(also) + at, out_tile, here_bytes);
  }
}

void scale_copy(void* out, const void* in, std::size_t count, Dtype dtype, double scale) {
  const DefaultFloatMode mode;
  const auto scale_all = scale == 1 ? nullptr : kernels().scale[int(dtype)];
  if (scale_all) return scale_all(out, in, count, scale);
  copy(out, in, count * size_of(dtype));
}

void divide(void* data, std::size_t count, Dtype dtype, std::int64_t divisor) {
  PATR_CHECK(divisor >= 1, std::invalid_argument, "divide: expected a divisor >= 1, got ", divisor);
  if (dtype == Dtype::int32) divide_all<std::int32_t>(data, count, divisor);
  if (dtype == Dtype::int64) divide_all<std::int64_t>(data, count, divisor);
  if (dtype == Dtype::uint8) divide_all<std::uint8_t>(data, count, divisor);
}

}  // namespace patallreduce::reduction
