#include "executor/scratch.h"

#include <algorithm>

namespace patallreduce::executor {

namespace {

// Sizes are rounded to 1/8 of their power of two, so that segments of nearly equal size share
// pieces and at most an eighth is wasted.
std::size_t rounded(std::size_t bytes) {
  std::size_t grain = 4096;
  while (grain * 16 <= bytes) grain *= 2;
  return std::max<std::size_t>((bytes + grain - 1) / grain * grain, grain);
}

}  // namespace

Scratch::~Scratch() {
  for (auto& [size, pieces] : free_)
    for (std::byte* piece : pieces) arithmetic_.release(piece);
}

std::byte* Scratch::take(std::size_t bytes) {
  const std::size_t size = rounded(bytes);
  in_use_bytes_ += size;
  peak_bytes_ = std::max(peak_bytes_, in_use_bytes_);
  auto& pieces = free_[size];
  if (!pieces.empty()) {
    std::byte* piece = pieces.back();
    pieces.pop_back();
    free_bytes_ -= size;
    return piece;
  }
  return static_cast<std::byte*>(arithmetic_.allocate(size));
}

void Scratch::give(std::byte* piece, std::size_t bytes) {
  const std::size_t size = rounded(bytes);
  in_use_bytes_ -= size;
  if (free_bytes_ + size > keep_bytes_) {
    arithmetic_.release(piece);
    return;
  }
  free_bytes_ += size;
  free_[size].push_back(piece);
}

}  // namespace patallreduce::executor
