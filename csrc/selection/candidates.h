// The algorithms that can be chosen, and with how many segments. Beside the registry and the tests
// this is the only place that knows algorithms by name.
#pragma once

#include <cstdint>
#include <vector>

#include "pricing/link.h"

namespace patallreduce::selection {

using pricing::Link;

struct Bucket {
  std::uint64_t elements;
  std::size_t element_bytes;

  std::uint64_t bytes() const { return elements * element_bytes; }
};

// What of the arrivals an algorithm looks at: of those expected, or (real_order) of those that
// come.
enum class Uses { nothing, order, times, real_order };

struct Candidate {
  const char* algorithm;
  Uses uses;
  // Counts worth pricing, ascending.
  std::vector<int> (*segments)(int ranks, const Bucket& bucket, const Link& link);
  // When every rank would be done, in closed form, where that exists; `arrivals_s` as the algorithm
  // orders the ranks.
  std::vector<double> (*estimate)(const std::vector<double>& arrivals_s, int segments,
                                  double message_bytes, const Link& link);
};

// Those that are registered; the first is the safe one: no forecast can make it worse.
const std::vector<Candidate>& candidates();

}  // namespace patallreduce::selection
