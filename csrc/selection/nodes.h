// Ranks that share nodes, as selection sees them: a node is like one rank, as late as its last, for
// its ranks' messages to the others leave by one port, and among themselves they take no time
// beside that. Algorithms that work by node (Algorithm::by_node) are priced so: whoever chooses
// knows nodes alone, and what it chose is then written down for the ranks.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "schedule/schedule_key.h"
#include "selection/forecast.h"

namespace patallreduce::selection {

using schedule::ScheduleKey;

class Nodes {
 public:
  // node_of: as in schedule/schedule.h. Throws ScheduleError unless it is empty or has (ranks)
  // numbers from 0 to ranks - 1.
  Nodes(int ranks, std::vector<std::int32_t> node_of);

  bool shared() const { return !node_of_.empty(); }
  int ranks() const { return ranks_; }
  int count() const { return count_; }            // the ranks, where no two share one
  int most_ranks() const { return most_ranks_; }  // of a node

  // By node, the largest of its ranks' values; nothing of nothing.
  std::vector<double> latest(const std::vector<double>& by_rank) const;
  std::vector<double> by_rank(const std::vector<double>& by_node) const;
  IterationForecast forecast(const IterationForecast& of_ranks) const;
  // Of a node the ranks follow each other as they arrive.
  ScheduleKey of_ranks(ScheduleKey of_nodes, std::uint64_t elements,
                       const std::vector<double>& arrivals_s) const;
  ScheduleKey of_nodes(ScheduleKey of_ranks) const;

 private:
  int ranks_, count_, most_ranks_ = 1;
  std::vector<std::int32_t> node_of_;  // per rank, from 0 to count_ - 1
};

}  // namespace patallreduce::selection
