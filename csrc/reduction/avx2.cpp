// The loops for AVX2: 32-byte vectors.
#if defined(__x86_64__)
#include "reduction/f16c.h"

#define TARGET __attribute__((target("avx2,f16c")))

namespace patallreduce::reduction {

namespace {

struct Avx2 {
  template <Dtype dtype, Op op>
  TARGET static void combine(void* out, const void* received, const void* held, std::size_t count) {
    if constexpr (dtype == Dtype::float16)
      combine_float16_loop<op>(out, received, held, count);
    else
      combine_loop<dtype, op>(out, received, held, count);
  }

  template <Dtype dtype>
  TARGET static void scale(void* out, const void* in, std::size_t count, double scale) {
    if constexpr (dtype == Dtype::float16)
      scale_float16_loop(out, in, count, scale);
    else
      scale_loop<dtype>(out, in, count, scale);
  }
};

}  // namespace

const Kernels& avx2_kernels() {
  static const Kernels kernels = kernels_of<Avx2>("avx2");
  return kernels;
}

}  // namespace patallreduce::reduction

#endif  // __x86_64__
