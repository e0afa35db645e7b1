// Private memory for what is received before it is summed and sent after it is summed.
//
// Pieces are reused last-in first-out, so that a piece is usually still in the cache. What is
// given back stays mapped for the next operation, up to `keep_bytes`. Its memory is of the kind
// that `arithmetic` works in.
#pragma once

#include <cstddef>
#include <map>
#include <vector>

#include "executor/arithmetic.h"

namespace patallreduce::executor {

class Scratch {
 public:
  Scratch(std::size_t keep_bytes, Arithmetic& arithmetic)
      : arithmetic_(arithmetic), keep_bytes_(keep_bytes) {}
  ~Scratch();
  Scratch(const Scratch&) = delete;

  std::byte* take(std::size_t bytes);
  void give(std::byte* piece, std::size_t bytes);

  Arithmetic& arithmetic() const { return arithmetic_; }
  std::size_t in_use_bytes() const { return in_use_bytes_; }
  std::size_t peak_bytes() const { return peak_bytes_; }

 private:
  Arithmetic& arithmetic_;
  std::map<std::size_t, std::vector<std::byte*>> free_;  // by rounded size
  std::size_t keep_bytes_;
  std::size_t free_bytes_ = 0;
  std::size_t in_use_bytes_ = 0;
  std::size_t peak_bytes_ = 0;
};

}  // namespace patallreduce::executor
