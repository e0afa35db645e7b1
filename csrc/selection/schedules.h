// The schedules of candidates, as simulations want them, and what they are generated from.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "algorithms/registry.h"
#include "pricing/simulation.h"
#include "schedule/schedule_key.h"

namespace patallreduce::selection {

using algorithms::Algorithm;
using algorithms::Bucket;
using algorithms::Sends;
using pricing::Link;
using pricing::Simulation;
using schedule::ScheduleKey;

// The ranks, first the one that arrives first; ties by rank.
std::vector<std::size_t> order_of(const std::vector<double>& arrivals_s);
std::vector<double> in_order(const std::vector<double>& values,
                             const std::vector<std::size_t>& order);

// Of an all-reduce by that name; otherwise: there is none.
Sends sends_of(const std::string& algorithm);

// Where a chain grows as ranks arrive, when each can take part: a rank knows where to send two
// messages after its successor's arrival; the last is known as soon as the others have come. An
// upper bound: a rank need not wait for its successor to add. Sorted arrivals.
std::vector<double> chain_begins_s(const std::vector<double>& arrivals_s, double latency_s);

// From here on no rank has messages for all others at once: measured are 32.
constexpr int most_flowing_ranks = 64;

// Whether its messages are priced as flows that share ports; else it is simulated.
inline bool flows(const Algorithm& algorithm, const Link& link) {
  return algorithm.pricing.flow && link.processors == 0;
}

class Schedules {
 public:
  Schedules(int ranks, const Link& link) : ranks_(ranks), link_(link) {}

  // What arrivals count in where times count.
  double quantum_s(const Algorithm& algorithm, const Bucket& bucket) const;
  // levels: per rank, of its arrival, where the order counts: alike arrivals have one level.
  ScheduleKey key_of(const Algorithm& candidate, int segments, const Bucket& bucket,
                     const std::vector<std::int32_t>& levels,
                     const std::vector<double>& arrivals_s) const;
  // Of one that depends on nothing, or only on the order of arrivals: its ranks are in that order.
  // Prepared once; valid until make_room().
  const Simulation& prepared(const Algorithm& candidate, int segments);
  Simulation generated(const Algorithm& candidate, const ScheduleKey& key) const;
  void make_room();

 private:
  int ranks_;
  Link link_;
  std::map<std::pair<const Algorithm*, int>, Simulation> prepared_;  // by segments, too
};

}  // namespace patallreduce::selection
