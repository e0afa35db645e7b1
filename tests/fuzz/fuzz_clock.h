// What now_s() says in a fuzzed program.
#pragma once

namespace patallreduce::fuzz {

extern double simulated_s;

}  // namespace patallreduce::fuzz
