// What one thread of a GPU does: its share of out[i] = also[i] = f(received[i], held[i]), one pass.
//
//   head       elements before the first 16-byte boundary, one at a time
//   vectors    16 bytes per load and store, two vectors of each operand in flight per thread
//   tail       what is left
//
// If the addresses differ modulo 16 there is no common boundary and all elements are head: half the
// speed for 16-bit types (an estimate: a warp then moves 64 bytes per load), so scratch should be
// laid out like the bucket.
//
// A thread loads all it combines before it stores, so out may be received or held. Nothing here is
// CUDA's, so that a test can run all threads, one after the other, where there is no GPU.
#pragma once

#include <algorithm>

#include "reduction/gpu_element.h"

#if defined(__CUDA_ARCH__)
#define PATR_UNROLL _Pragma("unroll")
#else
#define PATR_UNROLL
#endif

namespace patallreduce::reduction {

constexpr int vectors_per_thread = 2;
constexpr std::size_t vector_bytes = 16;

// One call. `head` and `vectors` are split() of the rest.
struct Work {
  void* out;
  void* also;  // may be null
  const void* received;
  const void* held;
  std::size_t count;
  double scale;
  std::int64_t divisor;
  std::size_t head = 0, vectors = 0;
};

inline std::size_t misalignment(const void* address) {
  return reinterpret_cast<std::uintptr_t>(address) % vector_bytes;
}

// Finds the 16-byte boundaries that all addresses share. Returns how many threads have work.
inline std::size_t split(Work& work, std::size_t element_bytes) {
  const std::size_t shift = misalignment(work.out);
  bool alike = true;
  for (const void* address : {static_cast<const void*>(work.also), work.received, work.held})
    alike = alike && (address == nullptr || misalignment(address) == shift);
  work.head = work.count;
  if (alike)
    work.head = std::min(work.count, (vector_bytes - shift) % vector_bytes / element_bytes);
  work.vectors = (work.count - work.head) * element_bytes / vector_bytes;
  const std::size_t in_vectors = work.vectors * (vector_bytes / element_bytes);
  return std::max((work.vectors + vectors_per_thread - 1) / vectors_per_thread,
                  work.count - in_vectors);
}

// 16 bytes as elements, moved as four words: of smaller members a compiler may load each by itself.
template <typename Stored>
struct Vector {
  static constexpr int lanes = int(vector_bytes / sizeof(Stored));
  struct alignas(vector_bytes) Words {
    std::uint32_t x, y, z, w;
  };

  PATR_INLINE void load(const Stored* from, std::size_t vector) {
    const Words words = reinterpret_cast<const Words*>(from)[vector];
    memcpy(lane, &words, sizeof(words));
  }
  PATR_INLINE void store(Stored* to, std::size_t vector) const {
    Words words;
    memcpy(&words, lane, sizeof(words));
    reinterpret_cast<Words*>(to)[vector] = words;
  }

  Stored lane[lanes];
};

// The share of `thread`, of `threads`.
template <typename Function>
PATR_INLINE void run_thread(const Work& work, std::size_t thread, std::size_t threads) {
  using Stored = typename Function::Stored;
  using Vector = reduction::Vector<Stored>;
  const Function function(work);
  Stored* const out = static_cast<Stored*>(work.out);
  Stored* const also = static_cast<Stored*>(work.also);
  const Stored* const received = static_cast<const Stored*>(work.received);
  const Stored* const held = static_cast<const Stored*>(work.held);

  for (std::size_t at = thread; at < work.vectors; at += vectors_per_thread * threads) {
    Vector a[vectors_per_thread], b[vectors_per_thread];
    PATR_UNROLL
    for (int i = 0; i < vectors_per_thread; ++i) {
      if (at + i * threads >= work.vectors) break;
      if constexpr (Function::binary) a[i].load(received + work.head, at + i * threads);
      b[i].load(held + work.head, at + i * threads);
    }
    PATR_UNROLL
    for (int i = 0; i < vectors_per_thread; ++i) {
      if (at + i * threads >= work.vectors) break;
      function(a[i].lane, b[i].lane, Vector::lanes);
      b[i].store(out + work.head, at + i * threads);
      if (also) b[i].store(also + work.head, at + i * threads);
    }
  }

  const std::size_t in_vectors = work.vectors * Vector::lanes;
  for (std::size_t at = thread; at < work.count - in_vectors; at += threads) {
    const std::size_t i = at < work.head ? at : at + in_vectors;
    Stored a{}, b = held[i];
    if constexpr (Function::binary) a = received[i];
    function(&a, &b, 1);
    out[i] = b;
    if (also) also[i] = b;
  }
}

// The functions put their results where `held` was.

template <Dtype dtype, Op op>
struct Combine {
  using Stored = StoredOf<dtype>;
  static constexpr bool binary = true;
  static constexpr bool floating = !std::is_integral_v<ValueOf<dtype>>;

  const bool scales;
  const ValueOf<dtype> factor;

  PATR_INLINE explicit Combine(const Work& work)
      : scales(floating && work.scale != 1), factor(ValueOf<dtype>(work.scale)) {}

  PATR_INLINE void operator()(const Stored* received, Stored* held, int lanes) const {
    if constexpr (floating) {
      if (scales) {  // the same for all threads: a branch once per vector
        PATR_UNROLL
        for (int i = 0; i < lanes; ++i) held[i] = scale_element<dtype>(held[i], factor);
      }
    }
    PATR_UNROLL
    for (int i = 0; i < lanes; ++i) held[i] = combine_element<dtype, op>(received[i], held[i]);
  }
};

template <Dtype dtype>
struct Scale {
  using Stored = StoredOf<dtype>;
  static constexpr bool binary = false;

  const ValueOf<dtype> factor;

  PATR_INLINE explicit Scale(const Work& work) : factor(ValueOf<dtype>(work.scale)) {}

  PATR_INLINE void operator()(const Stored*, Stored* held, int lanes) const {
    PATR_UNROLL
    for (int i = 0; i < lanes; ++i) held[i] = scale_element<dtype>(held[i], factor);
  }
};

template <Dtype dtype>
struct Divide {
  using Stored = StoredOf<dtype>;
  static constexpr bool binary = false;

  const std::int64_t divisor;

  PATR_INLINE explicit Divide(const Work& work) : divisor(work.divisor) {}

  PATR_INLINE void operator()(const Stored*, Stored* held, int lanes) const {
    PATR_UNROLL
    for (int i = 0; i < lanes; ++i) held[i] = Stored(held[i] / divisor);
  }
};

}  // namespace patallreduce::reduction
