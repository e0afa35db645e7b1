// The table in which all ranks' subtree values meet: a header and the values of each rank's blocks.
//
//   | header | values of its blocks | header | values ... |     one stretch of words per rank
//
// Every rank writes its own stretch and leaves zeros elsewhere; a sum of 64-bit integers over the
// ranks then gives every rank the whole table, exactly, whatever the order. What a rank writes is
// O(log n) values, so this is one small message per round, and each rank finishes the tree itself.
//
// How long a stretch is depends on where a rank's elements begin, that is on all counts. A table
// without known counts has headers only.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "reduction/reduction.h"
#include "tree_sum/tree.h"

namespace patallreduce::tree_sum {

using reduction::Dtype;
using reduction::Op;

// What a rank tells all others of its call.
struct TreeHeader {
  std::int64_t count;         // its elements
  std::int64_t columns;       // width of an element; -1: a plain number, as one column
  std::int64_t dtype_op;      // 256 * dtype + op, plus 65536 * refusal: why it gives no values
  std::int64_t distribution;  // a hash of the one it was told, 0: none
};

class RootTable {
 public:
  // Headers only.
  explicit RootTable(int ranks);
  RootTable(std::vector<std::int64_t> counts, std::size_t columns, std::size_t element_bytes);

  bool has_values() const { return !counts_.empty(); }
  const std::vector<std::int64_t>& counts() const { return counts_; }
  std::size_t row_bytes() const { return row_bytes_; }
  std::size_t columns() const { return columns_; }

  std::int64_t* words() { return words_.data(); }
  std::size_t size() const { return words_.size(); }
  void clear();

  TreeHeader& header(int rank);
  const TreeHeader& header(int rank) const;
  // The values of that rank's elements' blocks, which lie at `data`.
  void write_values(int rank, const void* data, Dtype dtype, Op op);
  // Combines all blocks into `out`, one row: the root of the tree. Without any element the
  // operation's neutral value; a NaN becomes the positive quiet one without payload.
  void finish(void* out, Dtype dtype, Op op) const;

 private:
  std::vector<std::int64_t> counts_;
  std::size_t columns_ = 0;
  std::size_t row_bytes_ = 0;
  std::vector<std::vector<Block>> blocks_;  // per rank
  std::vector<std::size_t> begins_;         // per rank: its first word
  std::vector<std::int64_t> words_;
};

}  // namespace patallreduce::tree_sum
