// Which rank holds an element: BTR22's rankFromIndex, which left constant time as future work.
//
// A guide table: indices are cut into at least 2P equal cells of 2^shift, and each knows the ranks
// that hold its ends. Where ranks hold about equally many elements, a cell meets at most two of
// them, and one comparison decides.
//
//   cost     O(P + cells) to make; a lookup is O(1) for even and optimised distributions, and at
//            worst, where many ranks share one cell, a binary search among those
//   source   Stelz (2022), equation 3.4 and chapter 5; guide tables: Chen and Asau, AIIE
//            Transactions 6 (1974), 163-166
#pragma once

#include <cstdint>
#include <vector>

#include "tree_sum/tree.h"

namespace patallreduce::tree_sum {

class RankLookup {
 public:
  // `starts` as start_indices gives them.
  explicit RankLookup(std::vector<Index> starts);

  // The rank that holds element x < N; ranks without elements hold none.
  int rank_of(Index x) const;

 private:
  std::vector<Index> starts_;
  int shift_ = 0;
  std::vector<std::int32_t> first_;  // per cell: the rank that holds its first element
};

}  // namespace patallreduce::tree_sum
