// The messages of Clairvoyant's reduce.
#pragma once

#include "algorithms/clairvoyant/rounds.h"

namespace patallreduce::algorithms {

// `only`: the rank whose steps are kept; -1: all.
ClairvoyantSchedule clairvoyant_bit_rows(const Problem& problem, int only = -1);

}  // namespace patallreduce::algorithms
