// Subtrees for any processor: 16-byte vectors, which every 64-bit baseline has.
#define TARGET
#include "tree_sum/subtree_vectors.h"

namespace patallreduce::tree_sum {

const SubtreeKernels& portable_subtrees() {
  static const SubtreeKernels kernels = subtree_kernels_of<16>();
  return kernels;
}

}  // namespace patallreduce::tree_sum
