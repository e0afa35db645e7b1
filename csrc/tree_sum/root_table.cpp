#include "tree_sum/root_table.h"

#include <algorithm>
#include <cstring>
#include <limits>

#include "reduction/kernels.h"
#include "tree_sum/subtree.h"

namespace patallreduce::tree_sum {

using reduction::combine;
using reduction::kernels;

namespace {

constexpr std::size_t header_words = sizeof(TreeHeader) / sizeof(std::int64_t);

template <typename T>
T neutral(Op op) {
  if (op == Op::prod) return 1;
  if (op == Op::min) return std::numeric_limits<T>::infinity();
  if (op == Op::max) return -std::numeric_limits<T>::infinity();
  return 0;
}

template <typename T>
void fill_neutral(void* out, std::size_t columns, Op op) {
  std::fill_n(static_cast<T*>(out), columns, neutral<T>(op));
}

// Which of two NaNs an addition returns depends on how the compiler ordered its operands.
template <typename T>
void make_nans_equal(void* out, std::size_t columns) {
  T* const values = static_cast<T*>(out);
  for (std::size_t i = 0; i < columns; ++i)
    if (values[i] != values[i]) values[i] = std::numeric_limits<T>::quiet_NaN();
}

}  // namespace

RootTable::RootTable(int ranks) {
  for (int rank = 0; rank < ranks; ++rank) begins_.push_back(rank * header_words);
  words_.resize(ranks * header_words);
}

RootTable::RootTable(std::vector<std::int64_t> counts, std::size_t columns,
                     std::size_t element_bytes)
    : counts_(std::move(counts)), columns_(columns), row_bytes_(columns * element_bytes) {
  const std::vector<Index> starts = start_indices(counts_);
  std::size_t end = 0;
  for (std::size_t rank = 0; rank < counts_.size(); ++rank) {
    blocks_.push_back(blocks(starts[rank], starts[rank + 1]));
    begins_.push_back(end);
    end += header_words + (blocks_.back().size() * row_bytes_ + 7) / 8;
  }
  words_.resize(end);
}

void RootTable::clear() { std::fill(words_.begin(), words_.end(), 0); }

TreeHeader& RootTable::header(int rank) {
  return reinterpret_cast<TreeHeader&>(words_[begins_[rank]]);
}

const TreeHeader& RootTable::header(int rank) const {
  return reinterpret_cast<const TreeHeader&>(words_[begins_[rank]]);
}

void RootTable::write_values(int rank, const void* data, Dtype dtype, Op op) {
  const char* from = static_cast<const char*>(data);
  char* to = reinterpret_cast<char*>(&words_[begins_[rank]]) + sizeof(TreeHeader);
  for (const Block& block : blocks_[rank]) {
    subtree(to, from, block.level, columns_, dtype, op);
    from += row_bytes_ << block.level;
    to += row_bytes_;
  }
}

// A binary counter over blocks: once all elements before x are in, it holds one value per bit of x,
// highest first. What is left at the end are nodes without right children: they pass values on.
void RootTable::finish(void* out, Dtype dtype, Op op) const {
  const bool wide = dtype == Dtype::float64;
  const auto combine = kernels().combine[int(dtype)][int(op)];
  std::vector<char> values(64 * row_bytes_);
  std::vector<int> levels;
  const auto at = [&](std::size_t i) { return values.data() + i * row_bytes_; };
  for (std::size_t rank = 0; rank < blocks_.size(); ++rank) {
    const char* from = reinterpret_cast<const char*>(&words_[begins_[rank]]) + sizeof(TreeHeader);
    for (const Block& block : blocks_[rank]) {
      std::size_t top = levels.size();
      if (row_bytes_ > 0) std::memcpy(at(top), from, row_bytes_);
      levels.push_back(block.level);
      for (; top > 0 && levels[top - 1] == levels[top]; --top) {
        combine(at(top - 1), at(top - 1), at(top), columns_);
        levels.pop_back();
        ++levels.back();
      }
      from += row_bytes_;
    }
  }
  if (levels.empty()) {
    if (wide)
      fill_neutral<double>(out, columns_, op);
    else
      fill_neutral<float>(out, columns_, op);
    return;
  }
  for (std::size_t top = levels.size() - 1; top > 0; --top)
    combine(at(top - 1), at(top - 1), at(top), columns_);
  if (row_bytes_ > 0) std::memcpy(out, at(0), row_bytes_);
  if (wide)
    make_nans_equal<double>(out, columns_);
  else
    make_nans_equal<float>(out, columns_);
}

}  // namespace patallreduce::tree_sum
