// What each segment of an operation's message is just now: the caller's memory at first, then the
// piece of scratch that it was received or summed into. A piece is given back once nothing holds
// it: no segment whose value it is, no send that reads it, no receive that fills it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "executor/scratch.h"

namespace patallreduce::executor {

struct Value {
  std::byte* memory;
  std::int32_t piece;  // -1: the caller's memory
  bool scaled;
};

class Values {
 public:
  Values(int segments, Scratch& scratch);
  ~Values();
  Values(const Values&) = delete;

  const Value& operator[](int segment) const { return values_[segment]; }
  // The caller's memory, unless the segment has a value.
  void begin_with(int segment, std::byte* memory, bool scaled);
  // Memory within that piece, -1: the caller's; scaled.
  void set(int segment, std::int32_t piece, std::byte* memory);
  void drop(int segment);  // nothing reads it any more

  std::int32_t take(std::size_t bytes);  // a piece, held once
  std::byte* memory(std::int32_t piece) const { return pieces_[piece].memory; }
  void hold(std::int32_t piece);  // -1: nothing to hold
  void release(std::int32_t piece);

 private:
  struct Piece {
    std::byte* memory;
    std::size_t bytes;
    int holders;
  };

  Scratch& scratch_;
  std::vector<Value> values_;
  std::vector<Piece> pieces_;
  std::vector<std::int32_t> free_pieces_;
};

}  // namespace patallreduce::executor
