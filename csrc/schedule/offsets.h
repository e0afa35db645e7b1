// Where each segment of a bucket begins.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace patallreduce::schedule {

// Where part i of `parts` equal ones of `total` begins, rounded down.
inline std::uint64_t border(std::uint64_t total, std::uint64_t i, std::uint64_t parts) {
  if ((total | i) <= UINT32_MAX) return total * i / parts;  // a twentieth of the time
  return static_cast<std::uint64_t>(static_cast<unsigned __int128>(total) * i / parts);
}

// Bytes, one more than segments, for `count` elements of `size` bytes. Borders between `blocks`
// (of an all-gather or reduce-scatter one per rank, else 1) are exact to the element.
inline std::vector<std::size_t> segment_offsets(std::uint64_t count, std::size_t size, int segments,
                                                int blocks) {
  constexpr std::size_t alignment = 64;
  const std::uint64_t grain = alignment / size;
  std::vector<std::size_t> offsets(segments + 1);
  for (int s = 0; s <= segments; ++s) {
    std::uint64_t element = border(count, s, segments);
    // Cache-line boundaries once a segment is long enough not to care, and no rank's block begins.
    const bool is_border = static_cast<std::int64_t>(s) * blocks % segments == 0;
    if (!is_border && count / static_cast<unsigned>(segments) >= 16 * grain)
      element -= element % grain;
    offsets[s] = element * size;
  }
  return offsets;
}

// The bytes of segments as simulations have them, cut as the executor cuts them but for alignment.
class SegmentBytes {
 public:
  SegmentBytes(std::uint64_t message_bytes, int segments)
      : message_bytes_(message_bytes),
        segments_(static_cast<std::uint64_t>(segments)),
        each_(static_cast<double>(message_bytes) / segments),
        alike_(message_bytes % segments_ == 0) {}

  // Of anything with a first and last segment.
  template <typename Range>
  double of(const Range& range) const {
    if (alike_) return each_ * (range.last - range.first);
    return static_cast<double>(begin(range.last) - begin(range.first));
  }

  // Messages without bytes are left out, but those of a message that has none.
  template <typename Range>
  bool leaves_out(const Range& range) const {
    return message_bytes_ > 0 && of(range) == 0;
  }

 private:
  std::uint64_t begin(std::int32_t segment) const {
    return border(message_bytes_, static_cast<std::uint64_t>(segment), segments_);
  }

  std::uint64_t message_bytes_, segments_;
  double each_;
  bool alike_;
};

}  // namespace patallreduce::schedule
