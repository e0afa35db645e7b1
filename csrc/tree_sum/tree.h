// The fixed binary tree over N elements, and what of it a rank with consecutive elements holds.
//
//   N = 6          0         node (x, y) combines (x, y-1) with (x + 2^(y-1), y-1); without a
//             0         4    right child it is its left one. So x's parent node is that of
//           0   2       4    parent(x) = x & (x-1), and x is the left end of 2^max_y(x) elements,
//          0 1 2 3     4 5   max_y(x) being the trailing zeros of x.
//
// The tree depends on N alone: whoever holds which elements, the result has the same bits.
// A rank's elements [begin, end) are cut into maximal complete subtrees ("blocks", at most
// 2 log2 n of them); their values are all that anybody else needs of it.
//
//   cost     blocks and roots: O(log n) per rank; nothing here depends on N itself
//   source   Stelz, bachelor's thesis, KIT (2022): equations 2.1-2.3 and 3.1-3.6, Algorithm 2
#pragma once

#include <cstdint>
#include <vector>

namespace patallreduce::tree_sum {

using Index = std::uint64_t;

// The index whose node x's node is the right child of; x > 0.
inline Index parent(Index x) { return x & (x - 1); }

// How high up x is the left end of a node: its trailing zeros; x > 0.
inline int max_y(Index x) { return __builtin_ctzll(x); }

struct Block {
  Index first;
  int level;  // 2^level elements
};

// The maximal complete subtrees of the elements [begin, end), in order.
std::vector<Block> blocks(Index begin, Index end);

// Where each rank's elements begin, and N: one more than `counts`.
// Throws std::invalid_argument naming the rank with a count below 0, or if the sum overflows.
std::vector<Index> start_indices(const std::vector<std::int64_t>& counts);

// The left ends of nodes that a rank with [begin, end) sends: their parents are elsewhere. None
// where begin is 0: that rank gets the result.
std::vector<Index> outbound_roots(Index begin, Index end);

// How many nodes are combined from two ranks' values: messages without buffering. O(P log N).
std::uint64_t message_count(const std::vector<std::int64_t>& counts);

}  // namespace patallreduce::tree_sum
