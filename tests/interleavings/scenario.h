// What the ranks of one run call, what goes wrong meanwhile, and what must hold at the end.
#pragma once

#include <string>

namespace patallreduce::interleavings {

// Runs one seed. Empty: all that is promised held; else what did not.
std::string violation(unsigned long seed);

// What a seed stands for.
std::string description(unsigned long seed);

}  // namespace patallreduce::interleavings
