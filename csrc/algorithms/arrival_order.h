// The ranks in order of arrival. Equal arrivals are ordered by rank, so that every rank that
// was given the same arrivals finds the same order.
//
// Ranks of one node follow each other, so that a chain or ring enters each node once; a node comes
// where its last rank would.
#pragma once

#include <cstdint>
#include <vector>

#include "schedule/schedule.h"

namespace patallreduce::algorithms {

using schedule::Problem;

struct ArrivalOrder {
  std::vector<std::int32_t> ranks;  // ranks[id] arrives id-th
  std::vector<int> first_ids;       // by id: the first of its node
  int id = 0;                       // of the rank asked for: ranks[id] == rank

  // The papers' chains and rings close on themselves.
  std::int32_t next() const { return ranks[(id + 1) % ranks.size()]; }
  std::int32_t previous() const { return ranks[(id + ranks.size() - 1) % ranks.size()]; }
  bool same_node(int a, int b) const { return first_ids[a] == first_ids[b]; }
};

ArrivalOrder arrival_order(const Problem& problem, int rank);

}  // namespace patallreduce::algorithms
