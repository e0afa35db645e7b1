// Subtrees for AVX2: 32-byte vectors.
#if defined(__x86_64__)
#define TARGET __attribute__((target("avx2")))
#include "tree_sum/subtree_vectors.h"

namespace patallreduce::tree_sum {

const SubtreeKernels& avx2_subtrees() {
  static const SubtreeKernels kernels = subtree_kernels_of<32>();
  return kernels;
}

}  // namespace patallreduce::tree_sum

#endif  // __x86_64__
