// The messages of BTR22's exchange: every rank sends the roots of its maximal local subtrees to
// whoever holds their parents, up to four in one message.
//
//   cost     O(P log N)
//   source   Stelz (2022), Algorithm 1 and section 3.1.1
#pragma once

#include <cstdint>
#include <vector>

#include "tree_sum/tree.h"

namespace patallreduce::tree_sum {

struct TreeMessage {
  int from;
  int to;
  std::vector<Index> roots;  // ascending, at most four
};

// In the order in which each rank sends. A buffered root leaves when the next goes to another rank,
// when four are together, or when the next one's subtree has more than 64 elements: that long a
// finished value does not wait.
std::vector<TreeMessage> tree_messages(const std::vector<std::int64_t>& counts);

}  // namespace patallreduce::tree_sum
