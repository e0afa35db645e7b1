// The loops for any processor, at the baseline of the compiler (SSE2 on x86-64, NEON on Arm).
#include "reduction/loops.h"

namespace patallreduce::reduction {

namespace {

struct Portable {
  template <Dtype dtype, Op op>
  static void combine(void* out, const void* received, const void* held, std::size_t count) {
    combine_loop<dtype, op>(out, received, held, count);
  }

  template <Dtype dtype>
  static void scale(void* out, const void* in, std::size_t count, double scale) {
    scale_loop<dtype>(out, in, count, scale);
  }
};

}  // namespace

const Kernels& portable_kernels() {
  static const Kernels kernels = kernels_of<Portable>("portable");
  return kernels;
}

}  // namespace patallreduce::reduction
