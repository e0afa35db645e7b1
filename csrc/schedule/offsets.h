// Where each segment of a bucket begins.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace patallreduce::schedule {

// Bytes, one more than segments, for `count` elements of `size` bytes. Borders between `blocks`
// (of an all-gather or reduce-scatter one per rank, else 1) are exact to the element.
inline std::vector<std::size_t> segment_offsets(std::uint64_t count, std::size_t size, int segments,
                                                int blocks) {
  constexpr std::size_t alignment = 64;
  const std::uint64_t grain = alignment / size;
  std::vector<std::size_t> offsets(segments + 1);
  for (int s = 0; s <= segments; ++s) {
    std::uint64_t element =
        static_cast<std::uint64_t>(static_cast<unsigned __int128>(count) *
                                   static_cast<unsigned>(s) / static_cast<unsigned>(segments));
    // Cache-line boundaries once a segment is long enough not to care, and no rank's block begins.
    const bool is_border = static_cast<std::int64_t>(s) * blocks % segments == 0;
    if (!is_border && count / static_cast<unsigned>(segments) >= 16 * grain)
      element -= element % grain;
    offsets[s] = element * size;
  }
  return offsets;
}

}  // namespace patallreduce::schedule
