// What was measured to be fastest where all ranks arrive together: an algorithm, and how finely it
// cuts, by the size of the message. Measured once, by `python -m patallreduce tune`, on the
// machines and the number of ranks at hand; a tuning file keeps it (patallreduce/tuning).
//
//   source  Pjesivac-Grbovic, PhD thesis, Tennessee (2007), chapter 5: decision functions
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "algorithms/registry.h"

namespace patallreduce::selection {

using algorithms::Link;

struct Rule {
  std::uint64_t most_bytes;  // the rule is for messages of so many, and of more than the one before
  std::string algorithm;     // empty: nothing is known of these
  std::uint64_t segment_bytes = 0;  // about; 0: as the algorithm's own rule says
};

class Rules {
 public:
  Rules() = default;
  // Throws ScheduleError unless most_bytes grow from rule to rule, and each names an algorithm for
  // `collective` that needs no arrivals.
  Rules(std::vector<Rule> rules, const std::string& collective);

  bool empty() const { return rules_.empty(); }
  // Null: none is for such a size.
  const Rule* find(std::uint64_t message_bytes) const;
  // By the rule for its size, if there is one. ranks: or nodes, where the algorithm works by node.
  std::optional<std::pair<const algorithms::Algorithm*, int>> choose(
      int ranks, const algorithms::Bucket& bucket, const Link& link) const;

 private:
  std::vector<Rule> rules_;
  std::vector<const algorithms::Algorithm*> algorithms_;  // by rule; null: nothing is known
};

// Of all-reduces.
struct TunedRules {
  Rules alone, beside_others;  // of their kind, in flight
};

}  // namespace patallreduce::selection
