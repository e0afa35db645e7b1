#include "executor/values.h"

namespace patallreduce::executor {

Values::Values(int segments, Scratch& scratch)
    : scratch_(scratch), values_(segments, Value{nullptr, -1, false}) {}

Values::~Values() {
  for (const Piece& piece : pieces_)
    if (piece.holders > 0) scratch_.give(piece.memory, piece.bytes);
}

void Values::begin_with(int segment, std::byte* memory, bool scaled) {
  if (values_[segment].memory == nullptr) values_[segment] = {memory, -1, scaled};
}

void Values::set(int segment, std::int32_t piece, std::byte* memory) {
  hold(piece);
  release(values_[segment].piece);
  values_[segment] = {memory, piece, true};
}

void Values::drop(int segment) {
  release(values_[segment].piece);
  values_[segment].piece = -1;
}

std::int32_t Values::take(std::size_t bytes) {
  if (free_pieces_.empty()) {
    free_pieces_.push_back(static_cast<std::int32_t>(pieces_.size()));
    pieces_.push_back({});
  }
  const std::int32_t index = free_pieces_.back();
  free_pieces_.pop_back();
  pieces_[index] = {scratch_.take(bytes), bytes, 1};
  return index;
}

void Values::hold(std::int32_t piece) {
  if (piece >= 0) ++pieces_[piece].holders;
}

void Values::release(std::int32_t index) {
  if (index < 0) return;
  Piece& piece = pieces_[index];
  if (--piece.holders > 0) return;
  scratch_.give(piece.memory, piece.bytes);
  free_pieces_.push_back(index);
}

}  // namespace patallreduce::executor
