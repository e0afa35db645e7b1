// Element-wise reductions over raw memory, vector code chosen at run time.
//
// float16 and bfloat16: every operation converts to float32, combines, and rounds back to
// nearest-even, as torch does element-wise.
#pragma once

#include <cstddef>
#include <cstdint>

namespace patallreduce {

enum class Dtype : std::uint8_t { float32, float64, float16, bfloat16, int32, int64, uint8 };
enum class Op : std::uint8_t { sum, avg, min, max, prod };

const char* name(Dtype dtype);
const char* name(Op op);
std::size_t size_of(Dtype dtype);

// out[i] = also[i] = received[i] OP (held[i] * scale)
//
// `also` may be null. `out` may equal `received` or `held`, `also` likewise; no other overlap.
// `scale` is rounded to dtype's arithmetic (float32 for the 16-bit types) and held * scale is
// rounded to dtype before combining; scale == 1 multiplies nothing. Integers ignore scale.
// avg combines like sum: the caller scales (floats) or divides (integers).
void combine(void* out, void* also, const void* received, const void* held, std::size_t count,
             Dtype dtype, Op op, double scale);

// out[i] = in[i] * scale, rounded to dtype; scale == 1 copies. `out` may equal `in`.
// Integers ignore scale.
void scale_copy(void* out, const void* in, std::size_t count, Dtype dtype, double scale);

// Integers: data[i] /= divisor, truncating toward zero. Floats: unchanged.
void divide(void* data, std::size_t count, Dtype dtype, std::int64_t divisor);

// "avx512", "avx2" or "portable": what the kernels use on this machine. The environment
// variable PATALLREDUCE_VECTOR narrows it (read once; tests compare the three).
const char* vector_level();

}  // namespace patallreduce
