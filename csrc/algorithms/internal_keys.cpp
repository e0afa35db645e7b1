#include "algorithms/internal_keys.h"

#include <utility>

#include "algorithms/algorithms.h"
#include "algorithms/registry.h"

namespace patallreduce::algorithms {

namespace {

constexpr std::uint64_t small_table_bytes = 256 * 1024;  // beyond it latency is not all

ScheduleKey key_of(const char* algorithm, int segments) { return {algorithm, segments, {}}; }

Shift shift_of(const char* name, int rounds, int ranks, int pieces,
               std::vector<std::int32_t> node_of) {
  Problem problem;
  problem.ranks = ranks;
  problem.node_of = std::move(node_of);
  const std::vector<std::int32_t> taking_part = first_ranks(problem);
  const int blocks = places_of_shift(static_cast<int>(taking_part.size()), rounds);
  ScheduleKey key = key_of(name, blocks * pieces);
  key.node_of = std::move(problem.node_of);
  return {std::move(key), blocks, rounds, taking_part};
}

}  // namespace

ScheduleKey barrier_key() { return key_of(usual_algorithm("barrier").name, 1); }

Shift metering_shift(int ranks, int pieces, std::vector<std::int32_t> node_of) {
  return shift_of("shift", shift_rounds, ranks, pieces, std::move(node_of));
}

Shift metering_long_shift(int ranks, std::vector<std::int32_t> node_of) {
  return shift_of("long_shift", long_shift_rounds, ranks, 1, std::move(node_of));
}

Shift metering_neighbours(std::vector<double> order, std::vector<std::int32_t> node_of) {
  Problem problem;
  problem.ranks = static_cast<int>(order.size());
  problem.arrivals_s = std::move(order);
  problem.node_of = std::move(node_of);
  const std::vector<std::int32_t> taking_part = first_ranks(problem);
  const int blocks = places_of_shift(static_cast<int>(taking_part.size()), 1);
  ScheduleKey key = key_of("neighbours", blocks);
  key.arrivals_s = std::move(problem.arrivals_s);
  key.node_of = std::move(problem.node_of);
  return {std::move(key), blocks, 1, taking_part};
}

ScheduleKey table_key(std::uint64_t bytes, int ranks) {
  return bytes <= small_table_bytes ? key_of("recursive_doubling", 1) : key_of("ring", ranks);
}

ScheduleKey swap_key(int ranks) { return key_of("pairwise_all_to_all", 2 * ranks); }

ScheduleKey spread_key(int ranks) { return key_of("pairwise_all_gather", ranks); }

}  // namespace patallreduce::algorithms
