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

namespace patallreduce {

template <Dtype dtype, Op op>
PATR_INLINE void combine_loop(void* out, const void* received, const void* held,
                              std::size_t count) {
  using Element = ElementOf<dtype>;
  using Stored = typename Element::Stored;
  Stored* const to = static_cast<Stored*>(out);
  const Stored* const a = static_cast<const Stored*>(received);
  const Stored* const b = static_cast<const Stored*>(held);
  PATR_INDEPENDENT
  for (std::size_t i = 0; i < count; ++i)
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
  for (std::size_t i = 0; i < count; ++i) to[i] = Element::narrow(Element::widen(from[i]) * factor);
}

PATR_INLINE void triad_loop(float* a, const float* b, const float* c, std::size_t count, float s) {
  PATR_INDEPENDENT
  for (std::size_t i = 0; i < count; ++i) a[i] = b[i] + s * c[i];
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
  kernels.triad = &Level::triad;
  return kernels;
}

}  // namespace patallreduce
