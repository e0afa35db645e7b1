// The loops for AVX2: 32-byte vectors. F16C is asked for because every AVX2 processor has it.
#if defined(__x86_64__)
#include "reduction/loops.h"

#define TARGET __attribute__((target("avx2,f16c")))

namespace patallreduce {

namespace {

struct Avx2 {
  template <Dtype dtype, Op op>
  TARGET static void combine(void* out, const void* received, const void* held, std::size_t count) {
    combine_loop<dtype, op>(out, received, held, count);
  }

  template <Dtype dtype>
  TARGET static void scale(void* out, const void* in, std::size_t count, double scale) {
    scale_loop<dtype>(out, in, count, scale);
  }

  TARGET static void triad(float* a, const float* b, const float* c, std::size_t count, float s) {
    triad_loop(a, b, c, count, s);
  }
};

}  // namespace

const Kernels& avx2_kernels() {
  static const Kernels kernels = kernels_of<Avx2>("avx2");
  return kernels;
}

}  // namespace patallreduce

#endif  // __x86_64__
