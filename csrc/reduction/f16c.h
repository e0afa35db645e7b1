// float16 by the F16C instructions, which both x86-64 vector levels have and no compiler finds in
// the arithmetic of Float16 (9 times slower, measured on arrays of 64 KiB).
//
// Eight elements at a time also for AVX-512: GCC 12 warns inside its own sixteen-wide intrinsics,
// and eight already outrun the memory.
#pragma once

#if defined(__x86_64__)
#include <immintrin.h>

#include "reduction/loops.h"

#define PATR_F16C inline __attribute__((target("avx2,f16c")))

namespace patallreduce::reduction {

constexpr std::size_t f16c_width = 8;

PATR_F16C void f16c_widen(float* to, const std::uint16_t* from) {
  const __m128i halves = _mm_loadu_si128(reinterpret_cast<const __m128i*>(from));
  _mm256_storeu_ps(to, _mm256_cvtph_ps(halves));
}

PATR_F16C void f16c_narrow(std::uint16_t* to, const float* from) {
  constexpr int nearest_even = _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC;
  const __m128i halves = _mm256_cvtps_ph(_mm256_loadu_ps(from), nearest_even);
  _mm_storeu_si128(reinterpret_cast<__m128i*>(to), halves);
}

// The arrays of float32 stay in registers or in the first-level cache; the last few elements go
// the portable way, to the same bits.
template <Op op>
PATR_INLINE void combine_float16_loop(void* out, const void* received, const void* held,
                                      std::size_t count) {
  std::uint16_t* const to = static_cast<std::uint16_t*>(out);
  const std::uint16_t* const a = static_cast<const std::uint16_t*>(received);
  const std::uint16_t* const b = static_cast<const std::uint16_t*>(held);
  float wide_a[f16c_width], wide_b[f16c_width];
  std::size_t i = 0;
  for (; i + f16c_width <= count; i += f16c_width) {
    f16c_widen(wide_a, a + i);
    f16c_widen(wide_b, b + i);
    combine_loop<Dtype::float32, op>(wide_a, wide_a, wide_b, f16c_width);
    f16c_narrow(to + i, wide_a);
  }
  combine_loop<Dtype::float16, op>(to + i, a + i, b + i, count - i);
}

PATR_INLINE void scale_float16_loop(void* out, const void* in, std::size_t count, double scale) {
  std::uint16_t* const to = static_cast<std::uint16_t*>(out);
  const std::uint16_t* const from = static_cast<const std::uint16_t*>(in);
  float wide[f16c_width];
  std::size_t i = 0;
  for (; i + f16c_width <= count; i += f16c_width) {
    f16c_widen(wide, from + i);
    scale_loop<Dtype::float32>(wide, wide, f16c_width, scale);
    f16c_narrow(to + i, wide);
  }
  scale_loop<Dtype::float16>(to + i, from + i, count - i, scale);
}

}  // namespace patallreduce::reduction

#endif  // __x86_64__
