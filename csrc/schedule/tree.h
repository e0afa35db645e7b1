// The one tree of a reproducible sum over n numbered leaves: ranks, micro-batches or elements.
//
// Node (x, y), x a multiple of 2^y, sums the leaves x .. x + 2^y - 1 that exist: its children are
// (x, y - 1) on the left and (x + 2^(y-1), y - 1) on the right. Without a right child it passes its
// left child's sum on. The root is (0, tree_height(n)).
//
//   source  Stelz, Karlsruhe Institute of Technology (2022), section 2, eq. 2.1-2.3
#pragma once

#include <algorithm>

namespace patallreduce::schedule {

struct TreeNode {
  int first, middle, last;  // left child: leaves [first, middle), right child: [middle, last)

  bool has_right() const { return middle < last; }
};

// ceil(log2 leaves), leaves >= 1.
inline int tree_height(int leaves) {
  int height = 0;
  while (leaves > 1 && (leaves - 1) >> height) ++height;
  return height;
}

// The node of that height, >= 1, above a leaf.
inline TreeNode tree_node(int leaf, int height, int leaves) {
  const int first = leaf >> height << height, half = 1 << (height - 1);
  const int middle = first + std::min(half, leaves - first);
  return {first, middle, middle + std::min(half, leaves - middle)};
}

}  // namespace patallreduce::schedule
