// The data dealt out to P ranks: part j, also rank j's block, is the segments [j*S/P, (j+1)*S/P).
// With S < P some parts are empty and their messages are left out.
//
// A ring moves P parts, whatever the number of segments; a reduce-scatter leaves rank j with the
// sum of block j, and an all-gather starts from there. A message usually carries one segment, so
// that with S > P the segments of a part follow each other without waiting for the whole part.
#pragma once

#include <cstdint>

#include "schedule/offsets.h"

namespace patallreduce::schedule {

struct Part {
  std::int32_t first, last;  // segments [first, last)
};

inline Part part(std::int64_t j, int ranks, int segments) {
  if (segments == ranks) return {std::int32_t(j), std::int32_t(j + 1)};  // saves two divisions
  return {std::int32_t(border(segments, j, ranks)), std::int32_t(border(segments, j + 1, ranks))};
}

}  // namespace patallreduce::schedule
