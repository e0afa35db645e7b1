// A ring moves P parts, whatever the number of segments: part j is the segments
// [j*S/P, (j+1)*S/P). With S < P some parts are empty and their messages are left out.
//
// A message always carries one segment, so that with S > P the segments of a part follow each
// other through the ring without waiting for the whole part.
#pragma once

#include <cstdint>

namespace patallreduce {

struct Part {
  std::int32_t first, last;  // segments [first, last)
};

inline Part part(std::int64_t j, int ranks, int segments) {
  if (segments == ranks) return {std::int32_t(j), std::int32_t(j + 1)};  // saves two divisions
  return {std::int32_t(j * segments / ranks), std::int32_t((j + 1) * segments / ranks)};
}

}  // namespace patallreduce
