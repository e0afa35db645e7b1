// The tile kernel, written once over vectors of `lanes` elements.
//
// A file that includes this defines TARGET first, the attribute of its instruction set: generic
// vector operations are lowered for the function they stand in before it is inlined anywhere. Each
// vector size is compiled in one file only, so no two files share a symbol of different code.
//
// A step takes vectors a and b and adds neighbours of each: even elements plus odd ones. The first
// steps do that within lanes of 128 bits (one instruction per shuffle), the rest with whole lanes;
// after all log2(lanes) of them the sums stand in order.
//
//   float64, 4 lanes    a = 0 1 | 2 3   b = 4 5 | 6 7   c = 8 9 | ..    d
//   within lanes        01 45 | 23 67                   89 .. | ..
//   whole lanes         0123 4567 | 89.. ....
#pragma once

#include <cstring>
#include <utility>

#include "reduction/arithmetic.h"
#include "tree_sum/subtree_kernels.h"

namespace patallreduce::tree_sum {

using reduction::apply;
using reduction::combine;
using reduction::Op;

template <Op op, typename T, int lanes>
struct SubtreeVectors {
  typedef T Vector __attribute__((vector_size(lanes * sizeof(T))));
  static constexpr int per_lane = 16 / sizeof(T);  // elements of 128 bits

  // Which element of (a, b) a step takes for position i: the even (odd = 0) or the odd ones.
  static constexpr int within_lanes(int i, int odd) {
    const int at = i % per_lane, half = per_lane / 2;
    return i - at + 2 * (at % half) + odd + (at < half ? 0 : lanes);
  }
  static constexpr int whole_lanes(int i, int odd) {
    const int lane = i / per_lane, half = lanes / per_lane / 2;
    return (half == 0 ? 0 : 2 * (lane % half) + odd) * per_lane + i % per_lane +
           (lane < half ? 0 : lanes);
  }
  static constexpr int source(int step, int i, int odd) {
    return (2 << step) <= per_lane ? within_lanes(i, odd) : whole_lanes(i, odd);
  }

  TARGET PATR_INLINE static void minimum(Vector& out, const Vector& a, const Vector& b) {
    using Bits = decltype(a < b);
    out = (Vector)((Bits)(a < b ? a : b) | (Bits)(b < a ? b : a));  // as floating_min
  }

  TARGET PATR_INLINE static void combine(Vector& out, const Vector& a, const Vector& b) {
    if constexpr (op == Op::prod) {
      out = a * b;
    } else if constexpr (op == Op::min) {
      minimum(out, a, b);
    } else if constexpr (op == Op::max) {
      minimum(out, -a, -b);
      out = -out;
    } else {
      out = a + b;
    }
  }

  template <int step, int... i>
  TARGET PATR_INLINE static void pair(Vector& out, const Vector& a, const Vector& b,
                                      std::integer_sequence<int, i...>) {
    const Vector even = __builtin_shufflevector(a, b, source(step, i, 0)...);
    const Vector odd = __builtin_shufflevector(a, b, source(step, i, 1)...);
    combine(out, even, odd);
  }

  // `vectors` vectors from memory become one; steps 0 ... log2(vectors) - 1.
  template <int step, int vectors>
  TARGET PATR_INLINE static void fold(Vector& out, const T* in) {
    if constexpr (vectors == 1) {
      std::memcpy(&out, in, sizeof out);
    } else {
      Vector left, right;
      fold<step - 1, vectors / 2>(left, in);
      fold<step - 1, vectors / 2>(right, in + vectors / 2 * lanes);
      pair<step>(out, left, right, std::make_integer_sequence<int, lanes>());
    }
  }

  static constexpr int last_step() {
    int step = -1;
    for (int n = lanes; n > 1; n /= 2) ++step;
    return step;
  }

  TARGET static void run(void* out, const void* from, std::size_t count) {
    constexpr std::size_t together = std::size_t(lanes) * lanes;
    alignas(64) T sums[subtree_tile / 2];
    const T* in = static_cast<const T*>(from);
    for (; count >= together; count /= lanes) {
      for (std::size_t i = 0; i < count; i += together) {
        Vector folded;
        fold<last_step(), lanes>(folded, in + i);
        std::memcpy(sums + i / lanes, &folded, sizeof folded);
      }
      in = sums;
    }
    for (; count > 1; count /= 2) {
      for (std::size_t i = 0; i < count / 2; ++i) sums[i] = apply<op>(in[2 * i], in[2 * i + 1]);
      in = sums;
    }
    std::memcpy(out, in, sizeof(T));
  }
};

template <int vector_bytes>
SubtreeKernels subtree_kernels_of() {
  SubtreeKernels kernels{};
  const auto enter = [&kernels](auto tag) {
    constexpr Op op = decltype(tag)::value;
    kernels.float32[int(op)] = &SubtreeVectors<op, float, vector_bytes / 4>::run;
    kernels.float64[int(op)] = &SubtreeVectors<op, double, vector_bytes / 8>::run;
  };
  enter(std::integral_constant<Op, Op::sum>());
  enter(std::integral_constant<Op, Op::min>());
  enter(std::integral_constant<Op, Op::max>());
  enter(std::integral_constant<Op, Op::prod>());
  return kernels;
}

}  // namespace patallreduce::tree_sum
