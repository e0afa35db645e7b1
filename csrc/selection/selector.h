// Chooses the algorithm for a bucket under predicted arrivals, by simulation.
//
// Objective: the time of the job's iteration, not of one collective. Rank r arrives next at about
// finish_r + compute_r, so the price of a choice is max_r(finish_r + compute_r) - a rank that
// computes longer again and again is freed first - with the average elapsed as a small second
// term. The price is averaged over a few patterns sampled from the prediction's uncertainty
// (deterministic: every call with equal input gives equal output), so a doubtful prediction chooses
// a safe schedule.
//
// A choice depends on the forecast's pattern class alone (selection/pattern.h) and is remembered
// for it. Where ranks share nodes it is made among nodes (selection/nodes.h); what does not work by
// node has to be cheaper though all ranks of a node send at once.
//
// Where all ranks arrive together and their machines were measured (selection/rules.h), that counts
// instead.
#pragma once

#include <cstdint>
#include <list>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "pricing/simulation.h"
#include "schedule/schedule_key.h"
#include "selection/nodes.h"
#include "selection/pattern.h"
#include "selection/price.h"
#include "selection/rollout.h"
#include "selection/rules.h"

namespace patallreduce::selection {

struct Choice {
  // arrivals_s: whole numbers of the pattern class, >= 0. slt: the order, ties equal. prr: in half
  // segment times, segment_time_s being 2. Otherwise, and if all arrive together, empty.
  ScheduleKey key;
  // The objective, in seconds from the first arrival, of the class: long gaps between arrivals
  // are shortened in it, and what all ranks compute is left out. NaN: by a rule.
  double price_s = 0;
};

class Selector {  // thread-safe: the monitor's thread and the caller's may share one
 public:
  // link: between two ranks, of different nodes if they share any; node_of: as in
  // schedule/schedule.h; by_node: ranks stand for nodes. Throws ScheduleError if ranks < 1, or link
  // or nodes make no sense.
  Selector(int ranks, Link link, std::vector<std::int32_t> node_of = {}, bool by_node = false,
           TunedRules rules = {});
  Selector(const Selector&) = delete;

  // The cheapest. Throws ScheduleError if the forecast is not (ranks) finite numbers, with errors
  // and computations >= 0. Remembered: about 20 ns a
  // rank. Otherwise priced: milliseconds up to 32 ranks, 0.1 ms beyond.
  Choice choose(std::uint64_t elements, std::size_t element_bytes, const Forecast& forecast);

  // The cheapest of those that need no arrivals, where all ranks come together and others like it
  // are in flight: these hide latencies, so what counts is how long the ports are busy. price_s:
  // of one. Remembered.
  Choice choose_beside_others(std::uint64_t elements, std::size_t element_bytes);

  // Every candidate with its price, the safe one first. Not remembered.
  std::vector<Choice> price_all(std::uint64_t elements, std::size_t element_bytes,
                                const Forecast& forecast);

 private:
  struct Known {
    PatternClass pattern_class;
    Choice choice;
  };

  std::optional<Choice> by_rule(const Rules& rules, std::uint64_t elements,
                                std::size_t element_bytes) const;
  Choice choose_known(std::uint64_t elements, std::size_t element_bytes, const Forecast& forecast);
  Choice choose_known_beside_others(std::uint64_t elements, std::size_t element_bytes);
  Choice for_ranks(Choice of_nodes, const Choice& of_ranks, std::uint64_t elements,
                   const std::vector<double>& arrivals_s) const;
  double scale_s(std::uint64_t message_bytes) const;
  void classify(std::uint64_t elements, std::size_t element_bytes, const Forecast& forecast);
  std::vector<Choice> price_class(const PatternClass& pattern_class);
  static Choice best_of(const std::vector<Choice>& all, double margin_s, double partners_s);

  const Nodes nodes_;
  const int ranks_;  // or nodes
  const Link link_;
  const bool by_node_;
  const TunedRules rules_;
  const std::unique_ptr<Selector> of_ranks_;  // whatever nodes they share; null: they share none
  std::mutex mutex_;                          // over all below
  Pricer pricer_;
  Rollout rollout_;
  std::map<std::pair<std::uint64_t, std::size_t>, Choice> beside_others_;  // by elements and bytes
  PatternClass class_;      // of the forecast at hand, kept for its memory
  std::list<Known> known_;  // the latest used first
  std::unordered_multimap<std::uint64_t, std::list<Known>::iterator> by_hash_;
};

}  // namespace patallreduce::selection
