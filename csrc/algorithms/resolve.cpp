#include "algorithms/resolve.h"

#include <algorithm>

#include "algorithms/registry.h"

namespace patallreduce::algorithms {

namespace {

// A reduce and an all-reduce may have one name; only a reduce has a root.
const Algorithm* known(const ScheduleKey& key) {
  const Algorithm* reduce = key.root < 0 ? nullptr : known_algorithm(key.algorithm, "reduce");
  return reduce ? reduce : known_algorithm(key.algorithm);
}

const Algorithm& find(const ScheduleKey& key) {
  const Algorithm* algorithm = known(key);
  return algorithm ? *algorithm : find_algorithm(key.algorithm);
}

Problem problem_of(const ScheduleKey& key, int ranks) {
  return {ranks,         key.segments, key.arrivals_s, key.segment_time_s, std::max(key.root, 0),
          key.latency_s, key.sum_s,    key.node_of,    key.ports};
}

}  // namespace

Steps steps_of(const ScheduleKey& key, int ranks, int rank) {
  if (key.given) return key.given->steps;
  const Algorithm& algorithm = find(key);
  Problem problem = problem_of(key, ranks);
  if (algorithm.dynamic()) problem.arrivals_s.clear();  // peers are places, whatever was expected
  return generate_steps(algorithm, problem, rank);
}

Schedule schedule_of(const ScheduleKey& key, int ranks) {
  return key.given ? *key.given->whole : generate(find(key), problem_of(key, ranks));
}

bool is_dynamic(const ScheduleKey& key) {
  const Algorithm* algorithm = known(key);
  return algorithm && algorithm->dynamic();
}

std::string collective_of(const ScheduleKey& key) {
  return key.given ? key.given->collective : find(key).collective;
}

}  // namespace patallreduce::algorithms
