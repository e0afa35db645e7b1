// The loops, written once; portable.cpp, avx2.cpp and avx512.cpp each compile them for one
// instruction set, by inlining them into functions with that target attribute. No file needs
// compiler flags of its own, and no vector code can leak into a function that others link.
#pragma once

#include <cstddef>

#include "reduction/arithmetic.h"
#include "reduction/kernels.h"

// Elements depend on no other element even where destinations and operands are the same memory.
// Told so, the compiler needs no overlap test, which would send work in place to scalar code.
#if defined(__clang__)
#define PATR_INDEPENDENT _Pragma("clang loop vectorize(assume_safety)")
#else
#define PATR_INDEPENDENT _Pragma("GCC ivdep")
#endif

namespace patallreduce::reduction {

// Two bfloat16 at a time, as the halves of a 32-bit word: each half is a float32 after a shift or
// a mask, where single elements would have to be spread over two vectors and packed again.
template <Op op>
PATR_INLINE void combine_bfloat16_words(void* out, const void* received, const void* held,
                                        std::size_t words) {
  constexpr std::uint32_t upper = 0xffff0000;
  // min and max return an operand: nothing to round.
  constexpr bool exact = op == Op::min || op == Op::max;
  char* const to = static_cast<char*>(out);
  const char* const a = static_cast<const char*>(received);
  const char* const b = static_cast<const char*>(held);
  PATR_INDEPENDENT
  for (std::size_t i = 0; i < words; ++i) {
    std::uint32_t x, y;  // copied, because elements are aligned to two bytes only
    std::memcpy(&x, a + 4 * i, 4);
    std::memcpy(&y, b + 4 * i, 4);
    const float first = apply<op>(as_float(x << 16), as_float(y << 16));
    const float second = apply<op>(as_float(x & upper), as_float(y & upper));
    const std::uint32_t first_bits = exact ? as_bits(first) : Bfloat16::rounded(first);
    const std::uint32_t second_bits = exact ? as_bits(second) : Bfloat16::rounded(second);
    const std::uint32_t word = first_bits >> 16 | (second_bits & upper);
    std::memcpy(to + 4 * i, &word, 4);
  }
}

template <Dtype dtype, Op op>
PATR_INLINE void combine_loop(void* out, const void* received, const void* held,
                              std::size_t count) {
  using Element = ElementOf<dtype>;
  using Stored = typename Element::Stored;
  Stored* const to = static_cast<Stored*>(out);
  const Stored* const a = static_cast<const Stored*>(received);
  const Stored* const b = static_cast<const Stored*>(held);
  std::size_t first = 0;
  if constexpr (dtype == Dtype::bfloat16) {
    combine_bfloat16_words<op>(out, received, held, count / 2);
    first = count / 2 * 2;
  }
  PATR_INDEPENDENT
  for (std::size_t i = first; i < count; ++i)
    to[i] = Element::narrow(apply<op>(Element::widen(a[i]), Element::widen(b[i])));
}

template <Dtype dtype>
PATR_INLINE void scale_loop(void* out, const void* in, std::size_t count, double scale) {
  using Element = ElementOf<dtype>;
  using Stored = typename Element::Stored;
  using Value = decltype(Element::widen(Stored()));
  Stored* const to = static_cast<Stored*>(out);
  const Stored* const from = static_cast<const Stored*>(in);
  const Value factor = static_cast<Value>(scale);
  PATR_INDEPENDENT
  for (std::size_t i = 0; i < count; ++i)
    to[i] = Element::narrow(scaled(Element::widen(from[i]), factor));
}

template <typename Level, Dtype dtype>
void enter(Kernels& kernels) {
  auto& combine = kernels.combine[int(dtype)];
  combine[int(Op::sum)] = &Level::template combine<dtype, Op::sum>;
  combine[int(Op::avg)] = combine[int(Op::sum)];
  combine[int(Op::min)] = &Level::template combine<dtype, Op::min>;
  combine[int(Op::max)] = &Level::template combine<dtype, Op::max>;
  combine[int(Op::prod)] = &Level::template combine<dtype, Op::prod>;
  if constexpr (!std::is_integral_v<decltype(ElementOf<dtype>::widen({}))>)
    kernels.scale[int(dtype)] = &Level::template scale<dtype>;
}

template <typename Level>
Kernels kernels_of(const char* level) {
  Kernels kernels{};
  kernels.level = level;
  enter<Level, Dtype::float32>(kernels);
  enter<Level, Dtype::float64>(kernels);
  enter<Level, Dtype::float16>(kernels);
  enter<Level, Dtype::bfloat16>(kernels);
  enter<Level, Dtype::int32>(kernels);
  enter<Level, Dtype::int64>(kernels);
  enter<Level, Dtype::uint8>(kernels);
  return kernels;
}

}  // namespace patallreduce::reduction
