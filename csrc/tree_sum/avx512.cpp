// Subtrees for AVX-512: 64-byte vectors.
#if defined(__x86_64__)
#define TARGET __attribute__((target("avx512f,avx512bw,avx512dq,avx512vl")))
#include "tree_sum/subtree_vectors.h"

namespace patallreduce::tree_sum {

const SubtreeKernels& avx512_subtrees() {
  static const SubtreeKernels kernels = subtree_kernels_of<64>();
  return kernels;
}

}  // namespace patallreduce::tree_sum

#endif  // __x86_64__
