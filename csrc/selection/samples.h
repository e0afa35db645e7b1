// Deterministic samples: what is sampled for equal input is equal.
#pragma once

#include <cstdint>

namespace patallreduce::selection {

// The counter-th of a series of standard normal values.
double normal(std::uint64_t counter);

}  // namespace patallreduce::selection
