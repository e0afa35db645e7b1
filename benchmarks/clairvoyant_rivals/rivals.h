// Published ways to make Clairvoyant's schedule. See the files of these names.
#pragma once

#include "algorithms/clairvoyant/rounds.h"

namespace patallreduce::algorithms {

ClairvoyantSchedule clairvoyant_linear(const Problem& problem);
ClairvoyantSchedule clairvoyant_pairing_heap(const Problem& problem);
ClairvoyantSchedule clairvoyant_segment_tree(const Problem& problem);

}  // namespace patallreduce::algorithms
