// The ranks in order of arrival. Equal arrivals are ordered by rank, so that every rank that
// was given the same arrivals finds the same order.
#pragma once

#include <cstdint>
#include <vector>

#include "schedule/schedule.h"

namespace patallreduce::algorithms {

using schedule::Problem;

struct ArrivalOrder {
  std::vector<std::int32_t> ranks;  // ranks[id] arrives id-th
  int id = 0;                       // of the rank asked for: ranks[id] == rank

  // The papers' chains and rings close on themselves.
  std::int32_t next() const { return ranks[(id + 1) % ranks.size()]; }
  std::int32_t previous() const { return ranks[(id + ranks.size() - 1) % ranks.size()]; }
};

ArrivalOrder arrival_order(const Problem& problem, int rank);

}  // namespace patallreduce::algorithms
