// Element-wise reductions over raw memory, vector code chosen at run time.
//
//   cost     one pass: each operand is read once, each destination written once
//   order    element i depends on element i alone, so the vector level never changes a bit
//
// float16 and bfloat16: every operation converts to float32, combines, and rounds back to
// nearest-even, as torch does element-wise. float16 overflows to infinity; subnormals are kept.
// Floating-point min and max are torch.minimum and torch.maximum: a NaN on either side gives a
// NaN. Which of +0 and -0 wins is unspecified there; here -0 is the smaller one (IEEE 754-2019).
// A sum or product that is a NaN is the one quiet NaN without sign and payload: processors differ
// in which of two NaNs they keep. (+0) + (-0) is +0, inf - inf that NaN.
// So received OP held has the bits of held OP received, always, and ranks that combine the same two
// values in either order agree.
// Subnormals are kept and rounding is to nearest-even whatever the calling thread's mode is.
// Integer sum and prod wrap (two's complement).
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

namespace patallreduce::reduction {

enum class Dtype : std::uint8_t { float32, float64, float16, bfloat16, int32, int64, uint8 };
enum class Op : std::uint8_t { sum, avg, min, max, prod };

constexpr int dtype_count = 7;
constexpr int op_count = 5;

const char* name(Dtype dtype);
const char* name(Op op);
std::size_t size_of(Dtype dtype);
bool is_floating(Dtype dtype);

// The inverse of `name`. Throws std::invalid_argument listing the known names.
Dtype find_dtype(const std::string& name);
Op find_op(const std::string& name);

// out[i] = also[i] = received[i] OP (held[i] * scale)
//
// All addresses are aligned to an element, no more. `also` may be null. `out` may equal
// `received` or `held`, `also` likewise; no other overlap.
// `scale` is rounded to dtype's arithmetic (float32 for the 16-bit types) and held * scale is
// rounded to dtype before combining; scale == 1 multiplies nothing. Integers ignore scale.
// avg combines like sum: the caller scales (floats) or divides (integers).
void combine(void* out, void* also, const void* received, const void* held, std::size_t count,
             Dtype dtype, Op op, double scale);

// out[i] = in[i] * scale, rounded to dtype; scale == 1 copies. `out` may equal `in`.
// Integers ignore scale.
void scale_copy(void* out, const void* in, std::size_t count, Dtype dtype, double scale);

// Integers: data[i] /= divisor, truncating toward zero. Floats: unchanged.
// Throws std::invalid_argument unless divisor >= 1. One scalar division per element: it runs
// once per result, not once per step.
void divide(void* data, std::size_t count, Dtype dtype, std::int64_t divisor);

// "avx512", "avx2" or "portable": what the kernels use on this machine. The environment
// variable PATALLREDUCE_VECTOR narrows it, never beyond what the processor has (read once;
// tests compare the three). Throws std::invalid_argument when the variable is none of these:
// ask here before a thread that cannot report errors calls a kernel.
const char* vector_level();

}  // namespace patallreduce::reduction
