// What one element is and what one operation does to it: plain scalar code without branches,
// which the compiler turns into vector code in loops.h.
//
// Everything here is PATR_INLINE: it must melt into its caller to be compiled for that caller's
// instruction set. nvcc compiles it for GPUs too (gpu_element.h), so it may rely on nothing that
// processors do differently: the bits of a NaN that arithmetic makes or passes on, say.
#pragma once

#include <cstdint>
#include <cstring>
#include <limits>
#include <type_traits>

#include "reduction/reduction.h"

#if defined(__CUDACC__)
#define PATR_INLINE __host__ __device__ __forceinline__
#else
#define PATR_INLINE inline __attribute__((always_inline))
#endif

namespace patallreduce::reduction {

PATR_INLINE float as_float(std::uint32_t bits) {
  float value;
  std::memcpy(&value, &bits, sizeof(value));
  return value;
}

PATR_INLINE std::uint32_t as_bits(float value) {
  std::uint32_t bits;
  std::memcpy(&bits, &value, sizeof(bits));
  return bits;
}

// `yes` where the condition holds, else `no`, by masks: around a floating-point operation the
// compiler would keep a branch, and then not vectorise the loop.
PATR_INLINE std::uint32_t select(bool condition, std::uint32_t yes, std::uint32_t no) {
  return no ^ ((yes ^ no) & -std::uint32_t(condition));
}

// Stored: the type in memory. widen and narrow lead to the type of the arithmetic and back.
template <typename T>
struct Native {
  using Stored = T;
  PATR_INLINE static T widen(T value) { return value; }
  PATR_INLINE static T narrow(T value) { return value; }
};

// bfloat16 is the upper half of a float32.
struct Bfloat16 {
  using Stored = std::uint16_t;

  PATR_INLINE static float widen(Stored value) { return as_float(std::uint32_t(value) << 16); }

  PATR_INLINE static Stored narrow(float value) { return Stored(rounded(value) >> 16); }

  // The result is the upper half; the lower is what rounding left there.
  PATR_INLINE static std::uint32_t rounded(float value) {
    const std::uint32_t bits = as_bits(value);
    const std::uint32_t round_up = 0x7fff + ((bits >> 16) & 1);
    // Rounding could carry a NaN into infinity or zero. Cutting cannot: a NaN that comes from
    // widened operands has its mark in the upper half.
    return bits + select(value == value, round_up, 0);
  }
};

// float16: 5 exponent bits biased by 15 (float32: 8, biased by 127), 10 mantissa bits (23).
struct Float16 {
  using Stored = std::uint16_t;
  static constexpr std::uint32_t rebias = (127u - 15u) << 23;

  PATR_INLINE static float widen(Stored value) {
    const std::uint32_t magnitude = value & 0x7fffu;
    const std::uint32_t normal = (magnitude << 13) + rebias;
    const std::uint32_t infinite_or_nan = normal + rebias;
    // No float32 subnormals on the way: they are slow, and lost where a thread flushes them.
    const std::uint32_t subnormal = as_bits(float(std::int32_t(magnitude)) * 0x1p-24f);
    std::uint32_t bits = select(magnitude >= 0x7c00, infinite_or_nan, normal);
    bits = select(magnitude < 0x0400, subnormal, bits);
    return as_float(bits | (value & 0x8000u) << 16);
  }

  PATR_INLINE static Stored narrow(float value) {
    const std::uint32_t bits = as_bits(value);
    const std::uint32_t magnitude = bits & 0x7fffffff;
    // A carry out of the mantissa ends in the next exponent, at the top in infinity.
    const std::uint32_t normal = (magnitude - rebias + 0x0fff + ((magnitude >> 13) & 1)) >> 13;
    // In [0.5, 1) a float32 counts in units of 2^-24, as float16's subnormals do: let the
    // addition round.
    const std::uint32_t subnormal = as_bits(as_float(magnitude) + 0.5f) - as_bits(0.5f);
    const std::uint32_t quiet_nan = 0x7e00 | ((magnitude >> 13) & 0x03ff);
    std::uint32_t half = select(magnitude < 0x38800000, subnormal, normal);  // 2^-14
    half = select(magnitude >= 0x47800000, 0x7c00, half);                    // 2^16
    half = select(magnitude > 0x7f800000, quiet_nan, half);
    return Stored(half | (bits >> 16 & 0x8000));
  }
};

template <Dtype dtype>
struct ElementOf;
template <>
struct ElementOf<Dtype::float32> : Native<float> {};
template <>
struct ElementOf<Dtype::float64> : Native<double> {};
template <>
struct ElementOf<Dtype::float16> : Float16 {};
template <>
struct ElementOf<Dtype::bfloat16> : Bfloat16 {};
template <>
struct ElementOf<Dtype::int32> : Native<std::int32_t> {};
template <>
struct ElementOf<Dtype::int64> : Native<std::int64_t> {};
template <>
struct ElementOf<Dtype::uint8> : Native<std::uint8_t> {};

PATR_INLINE std::uint64_t as_bits(double value) {
  std::uint64_t bits;
  std::memcpy(&bits, &value, sizeof(bits));
  return bits;
}

PATR_INLINE double as_float(std::uint64_t bits) {
  double value;
  std::memcpy(&value, &bits, sizeof(value));
  return value;
}

// Of two unequal numbers both choices are the same one. Equal ones differ at most in the sign of
// zero: or makes it -0. A NaN that meets anything stays a NaN under or.
template <typename T>
PATR_INLINE T floating_min(T a, T b) {
  return as_float(as_bits(a < b ? a : b) | as_bits(b < a ? b : a));
}

// Minus a float by its bits: a GPU's negation may change a NaN.
PATR_INLINE float negated(float value) { return as_float(as_bits(value) ^ 0x80000000); }
PATR_INLINE double negated(double value) {
  return as_float(as_bits(value) ^ std::uint64_t(0x8000000000000000));
}

// A NaN becomes the one without sign and payload; as bits and masks, like `select`.
PATR_INLINE float one_nan(float value) {
  return as_float(select(value == value, as_bits(value), 0x7fc00000));
}
PATR_INLINE double one_nan(double value) {
  constexpr std::uint64_t nan = 0x7ff8000000000000;
  return as_float(nan ^ ((as_bits(value) ^ nan) & -std::uint64_t(value == value)));
}

// a OP b: the bits of b OP a.
template <Op op, typename T>
PATR_INLINE T apply(T a, T b) {
  if constexpr (op == Op::min || op == Op::max) {
    if constexpr (std::is_integral_v<T>)
      return (op == Op::min) == (a < b) ? a : b;
    else
      return op == Op::min ? floating_min(a, b) : negated(floating_min(negated(a), negated(b)));
  } else if constexpr (std::is_integral_v<T>) {
    // Unsigned, because signed overflow is undefined.
    using Unsigned = std::make_unsigned_t<T>;
    return op == Op::prod ? T(Unsigned(a) * Unsigned(b)) : T(Unsigned(a) + Unsigned(b));
  } else {
    return one_nan(op == Op::prod ? a * b : a + b);
  }
}

// held * factor, the product of avg's scale.
template <typename T>
PATR_INLINE T scaled(T held, T factor) {
  return one_nan(held * factor);
}

}  // namespace patallreduce::reduction
