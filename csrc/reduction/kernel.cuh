// The one kernel: out[i] = also[i] = f(received[i], held[i]) over device memory, in one pass.
//
//   head       elements before the first 16-byte boundary, one at a time
//   vectors    16 bytes per load and store, two vectors of each operand in flight per thread
//   tail       what is left
//
// If the addresses differ modulo 16 there is no common boundary and all elements are head: half the
// speed for 16-bit types (an estimate: a warp then moves 64 bytes per load), so scratch should be
// laid out like the bucket.
//
// A thread loads all it combines before it stores, so out may be received or held.
#pragma once

#include <cuda_runtime.h>

#include "reduction/gpu_element.h"

namespace patallreduce {

constexpr int threads_per_block = 256;
constexpr int vectors_per_thread = 2;

// What a launch passes to the kernel. `head` and `vectors` are split() of the rest.
struct Work {
  void* out;
  void* also;  // may be null
  const void* received;
  const void* held;
  std::size_t count, head, vectors;
  double scale;
  std::int64_t divisor;
};

// 16 bytes as elements.
template <typename Stored>
struct alignas(16) Vector {
  static constexpr int lanes = 16 / sizeof(Stored);
  Stored lane[lanes];
};

// Written as four words: of 2-byte members the compiler may load each by itself.
template <typename Stored>
__device__ __forceinline__ Vector<Stored> load(const Stored* from, std::size_t vector) {
  const uint4 words = reinterpret_cast<const uint4*>(from)[vector];
  Vector<Stored> result;
  memcpy(&result, &words, sizeof(result));
  return result;
}

template <typename Stored>
__device__ __forceinline__ void store(Stored* to, std::size_t vector, const Vector<Stored>& value) {
  uint4 words;
  memcpy(&words, &value, sizeof(words));
  reinterpret_cast<uint4*>(to)[vector] = words;
}

template <typename Function>
__global__ void __launch_bounds__(threads_per_block) element_wise(const Work work) {
  using Stored = typename Function::Stored;
  using Vector = patallreduce::Vector<Stored>;
  const Function function(work);
  Stored* const out = static_cast<Stored*>(work.out);
  Stored* const also = static_cast<Stored*>(work.also);
  const Stored* const received = static_cast<const Stored*>(work.received);
  const Stored* const held = static_cast<const Stored*>(work.held);
  const std::size_t thread = blockIdx.x * std::size_t(blockDim.x) + threadIdx.x;
  const std::size_t threads = gridDim.x * std::size_t(blockDim.x);

  for (std::size_t at = thread; at < work.vectors; at += vectors_per_thread * threads) {
    Vector a[vectors_per_thread], b[vectors_per_thread];
#pragma unroll
    for (int i = 0; i < vectors_per_thread; ++i) {
      if (at + i * threads >= work.vectors) break;
      if constexpr (Function::binary) a[i] = load(received + work.head, at + i * threads);
      b[i] = load(held + work.head, at + i * threads);
    }
#pragma unroll
    for (int i = 0; i < vectors_per_thread; ++i) {
      if (at + i * threads >= work.vectors) break;
      function(a[i].lane, b[i].lane, Vector::lanes);
      store(out + work.head, at + i * threads, b[i]);
      if (also) store(also + work.head, at + i * threads, b[i]);
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

  __device__ explicit Combine(const Work& work)
      : scales(floating && work.scale != 1), factor(ValueOf<dtype>(work.scale)) {}

  __device__ __forceinline__ void operator()(const Stored* received, Stored* held,
                                             int lanes) const {
    if constexpr (floating) {
      if (scales) {  // the same for all threads: a branch once per vector
#pragma unroll
        for (int i = 0; i < lanes; ++i) held[i] = scale_element<dtype>(held[i], factor);
      }
    }
#pragma unroll
    for (int i = 0; i < lanes; ++i) held[i] = combine_element<dtype, op>(received[i], held[i]);
  }
};

template <Dtype dtype>
struct Scale {
  using Stored = StoredOf<dtype>;
  static constexpr bool binary = false;

  const ValueOf<dtype> factor;

  __device__ explicit Scale(const Work& work) : factor(ValueOf<dtype>(work.scale)) {}

  __device__ __forceinline__ void operator()(const Stored*, Stored* held, int lanes) const {
#pragma unroll
    for (int i = 0; i < lanes; ++i) held[i] = scale_element<dtype>(held[i], factor);
  }
};

template <Dtype dtype>
struct Divide {
  using Stored = StoredOf<dtype>;
  static constexpr bool binary = false;

  const std::int64_t divisor;

  __device__ explicit Divide(const Work& work) : divisor(work.divisor) {}

  __device__ __forceinline__ void operator()(const Stored*, Stored* held, int lanes) const {
#pragma unroll
    for (int i = 0; i < lanes; ++i) held[i] = Stored(held[i] / divisor);
  }
};

using Kernel = void (*)(Work);

// One file each compiles the kernels of one op, so that they compile side by side.
Kernel sum_kernel(Dtype dtype);
Kernel product_kernel(Dtype dtype);
Kernel minimum_kernel(Dtype dtype);
Kernel maximum_kernel(Dtype dtype);

template <Op op>
Kernel combine_kernel(Dtype dtype) {
  constexpr Kernel kernels[dtype_count] = {
      element_wise<Combine<Dtype::float32, op>>, element_wise<Combine<Dtype::float64, op>>,
      element_wise<Combine<Dtype::float16, op>>, element_wise<Combine<Dtype::bfloat16, op>>,
      element_wise<Combine<Dtype::int32, op>>,   element_wise<Combine<Dtype::int64, op>>,
      element_wise<Combine<Dtype::uint8, op>>,
  };
  return kernels[int(dtype)];
}

}  // namespace patallreduce
