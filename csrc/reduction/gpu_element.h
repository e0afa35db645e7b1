// One element on a GPU: the bits of the CPU's kernels.
//
// arithmetic.h does for GPUs what it does for processors, since it leaves no NaN to the hardware.
// The 16-bit types alone differ: GPUs convert them by one instruction, where arithmetic.h takes ten
// and could not keep up with the memory. The instructions agree on numbers; of NaNs they keep
// nothing, so a NaN never comes out of one here.
//
// A compiler for processors takes arithmetic.h's conversions instead, which lets a test compare the
// rest with the CPU's kernels where there is no GPU. nvcc's host compiler takes NVIDIA's emulation
// of the instructions.
#pragma once

#if defined(__CUDACC__)
#include <cuda_bf16.h>
#include <cuda_fp16.h>
#endif

#include "reduction/arithmetic.h"

namespace patallreduce::reduction {

// Widen and narrow numbers as ElementOf does; a NaN becomes any NaN.
struct Float16Numbers {
#if defined(__CUDACC__)
  PATR_INLINE static float widen(std::uint16_t value) {
    return __half2float(__ushort_as_half(value));
  }
  PATR_INLINE static std::uint16_t narrow(float value) {
    return __half_as_ushort(__float2half_rn(value));
  }
#else
  PATR_INLINE static float widen(std::uint16_t value) { return Float16::widen(value); }
  PATR_INLINE static std::uint16_t narrow(float value) { return Float16::narrow(value); }
#endif
  static constexpr std::uint16_t nan = 0x7e00;
};

struct Bfloat16Numbers {
  PATR_INLINE static float widen(std::uint16_t value) { return Bfloat16::widen(value); }
#if defined(__CUDACC__)
  PATR_INLINE static std::uint16_t narrow(float value) {
    return __bfloat16_as_ushort(__float2bfloat16_rn(value));
  }
#else
  PATR_INLINE static std::uint16_t narrow(float value) { return Bfloat16::narrow(value); }
#endif
  static constexpr std::uint16_t nan = 0x7fc0;
};

template <typename T>
struct NativeNumbers {
  PATR_INLINE static T widen(T value) { return value; }
  PATR_INLINE static T narrow(T value) { return value; }
};

template <Dtype dtype>
struct NumbersOf : NativeNumbers<typename ElementOf<dtype>::Stored> {};
template <>
struct NumbersOf<Dtype::float16> : Float16Numbers {};
template <>
struct NumbersOf<Dtype::bfloat16> : Bfloat16Numbers {};

template <Dtype dtype>
using StoredOf = typename ElementOf<dtype>::Stored;
template <Dtype dtype>
using ValueOf = decltype(ElementOf<dtype>::widen(StoredOf<dtype>()));

// The mantissa that ElementOf<float16>::widen would give, in float16's ten bits.
PATR_INLINE std::uint32_t widened_mantissa(std::uint16_t pattern, float value) {
  return (value == value ? as_bits(value) >> 13 : std::uint32_t(pattern)) & 0x03ff;
}

// min and max return an operand whole, so nothing is narrowed: the choice is made among patterns.
// With a NaN the CPU's result is the or of both as float32, made quiet; so here.
template <Op op>
PATR_INLINE std::uint16_t float16_extreme(std::uint16_t a, std::uint16_t b) {
  constexpr std::uint32_t sign = 0x8000;
  constexpr std::uint32_t flip = op == Op::max ? sign : 0;  // max as the min of the negated
  const float x = Float16Numbers::widen(a), y = Float16Numbers::widen(b);
  const bool a_first = op == Op::max ? y < x : x < y;
  const bool b_first = op == Op::max ? x < y : y < x;
  const std::uint32_t one = (a_first ? a : b) ^ flip, other = (b_first ? b : a) ^ flip;
  const std::uint32_t signs = (((a ^ flip) | (b ^ flip)) ^ flip) & sign;
  const std::uint32_t quiet_nan = signs | 0x7e00 | widened_mantissa(a, x) | widened_mantissa(b, y);
  const bool numbers = x == x && y == y;
  return std::uint16_t(numbers ? (one | other) ^ flip : quiet_nan);
}

// received OP held.
template <Dtype dtype, Op op>
PATR_INLINE StoredOf<dtype> combine_element(StoredOf<dtype> received, StoredOf<dtype> held) {
  using Numbers = NumbersOf<dtype>;
  constexpr bool extreme = op == Op::min || op == Op::max;
  if constexpr (dtype == Dtype::float16 && extreme) {
    return float16_extreme<op>(received, held);
  } else if constexpr (dtype == Dtype::bfloat16 && extreme) {
    const float value = apply<op>(Numbers::widen(received), Numbers::widen(held));
    return std::uint16_t(as_bits(value) >> 16);
  } else if constexpr (sizeof(StoredOf<dtype>) == 2) {
    const float x = Numbers::widen(received), y = Numbers::widen(held);
    const float value = op == Op::prod ? x * y : x + y;
    return value == value ? Numbers::narrow(value) : Numbers::nan;
  } else {
    return apply<op>(received, held);
  }
}

// held * factor, for floating-point dtypes.
template <Dtype dtype>
PATR_INLINE StoredOf<dtype> scale_element(StoredOf<dtype> held, ValueOf<dtype> factor) {
  using Numbers = NumbersOf<dtype>;
  if constexpr (sizeof(StoredOf<dtype>) == 2) {
    const float value = Numbers::widen(held) * factor;
    return value == value ? Numbers::narrow(value) : Numbers::nan;
  } else {
    return scaled(held, factor);
  }
}

}  // namespace patallreduce::reduction
