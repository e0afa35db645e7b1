#include "selection/selector.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "errors.h"

namespace patallreduce::selection {

namespace {

constexpr std::size_t most_known = 512;
// Others have to beat the safe candidate by so much of the scale. Models are no better than that;
// and a chain lets its ranks go one after the other, so that the next arrivals are staggered, which
// a chain again serves best: without a margin balanced ranks stay in that cycle for nothing.
constexpr double margin_scales = 0.06;
// In whatever else depends on no arrivals ranks change their partners. By the model that costs
// nothing; among 16 ranks it was measured to cost half to three quarters of what a message takes
// through a port (benchmarks/results/allreduce_partners.jsonl), and in a job more. Why is not
// known: ports that flows share, simulated, show little of it.
constexpr double margin_partners = 1;
constexpr int most_that_change_freely = 8;  // ranks
// In flight beside one, which hide what latency can be hidden. There the model was measured to be
// too kind to whatever is not a ring, by a tenth: in one, nobody receives from two ranks. Of the
// time in which the message passes a port:
constexpr std::size_t others = 7;
constexpr double margin_beside_others = 0.2;

}  // namespace

namespace {

// Of a rank whose node's other ranks send, too.
Link shared_by(int ranks, Link link) {
  const double slower = std::max(ranks / link.partners, 1.0);
  link.bytes_per_s /= slower;
  link.partners = std::max(link.partners / ranks, 1.0);
  link.burst_bytes /= ranks;
  link.ports.clear();
  for (auto& [bytes, seconds] : link.transfers_s) seconds *= slower;
  return link;
}

}  // namespace

Selector::Selector(int ranks, Link link, std::vector<std::int32_t> node_of, bool by_node,
                   TunedRules rules)
    : nodes_(ranks, std::move(node_of)),
      ranks_(nodes_.count()),
      link_(std::move(link)),
      by_node_(by_node || nodes_.shared()),
      rules_(std::move(rules)),
      of_ranks_(nodes_.shared()
                    ? std::make_unique<Selector>(ranks, shared_by(nodes_.most_ranks(), link_),
                                                 std::vector<std::int32_t>(), false, rules_)
                    : nullptr),
      pricer_(ranks_, link_, by_node_),
      rollout_(ranks_, link_) {
  PATR_CHECK(ranks >= 1, ScheduleError, "selector: expected at least 1 rank, got ", ranks);
  check(link_);
  check_ports(link_, ranks_);
}

// The message once through a port, and the latencies of a tree.
double Selector::scale_s(std::uint64_t message_bytes) const {
  return link_.transfer_s(static_cast<double>(message_bytes)) +
         2 * link_.latency_s * (1 + std::log2(ranks_));
}

void Selector::classify(std::uint64_t elements, std::size_t element_bytes,
                        const Forecast& forecast) {
  class_.elements = elements;
  class_.element_bytes = element_bytes;
  selection::classify(forecast, scale_s(elements * element_bytes), class_);
}

Choice Selector::choose(std::uint64_t elements, std::size_t element_bytes,
                        const Forecast& forecast) {
  check(forecast, nodes_.ranks());
  const auto [first_s, last_s] =
      std::minmax_element(forecast.arrivals_s.begin(), forecast.arrivals_s.end());
  if (*first_s == *last_s)
    if (auto choice = by_rule(rules_.alone, elements, element_bytes)) return *choice;
  if (!of_ranks_) return choose_known(elements, element_bytes, forecast);
  const Forecast of_nodes{nodes_.latest(forecast.arrivals_s), nodes_.latest(forecast.errors_s)};
  return for_ranks(choose_known(elements, element_bytes, of_nodes),
                   of_ranks_->choose(elements, element_bytes, forecast), elements,
                   forecast.arrivals_s);
}

// What does not work by node is for the ranks, whatever nodes they share.
std::optional<Choice> Selector::by_rule(const Rules& rules, std::uint64_t elements,
                                        std::size_t element_bytes) const {
  const algorithms::Bucket bucket{elements * element_bytes, elements};
  const auto ruled = rules.choose(ranks_, bucket, link_);
  if (!ruled) return std::nullopt;
  const auto [algorithm, segments] = *ruled;
  if (by_node_ && !algorithm->by_node)
    return of_ranks_ ? of_ranks_->by_rule(rules, elements, element_bytes) : std::nullopt;
  Choice choice;
  choice.key.algorithm = algorithm->name;
  choice.key.segments = segments;
  choice.price_s = NAN;
  const std::vector<double> together(std::size_t(nodes_.ranks()), 0);
  choice.key = nodes_.of_ranks(std::move(choice.key), elements, together);
  return choice;
}

Choice Selector::for_ranks(Choice of_nodes, const Choice& of_ranks, std::uint64_t elements,
                           const std::vector<double>& arrivals_s) const {
  const Algorithm& other = algorithms::find_algorithm(of_ranks.key.algorithm, "all_reduce");
  // Within nodes, at most: a message there takes no longer than one between them.
  const double hops_s = 2 * (nodes_.ranks() - nodes_.count()) * link_.latency_s;
  if (!other.by_node && of_ranks.price_s < of_nodes.price_s + hops_s) return of_ranks;
  of_nodes.key = nodes_.of_ranks(std::move(of_nodes.key), elements, arrivals_s);
  return of_nodes;
}

Choice Selector::choose_known(std::uint64_t elements, std::size_t element_bytes,
                              const Forecast& forecast) {
  const std::lock_guard lock(mutex_);
  classify(elements, element_bytes, forecast);
  const std::uint64_t hash = class_.hash();
  const auto [begin, end] = by_hash_.equal_range(hash);
  for (auto found = begin; found != end; ++found) {
    if (!(found->second->pattern_class == class_)) continue;
    known_.splice(known_.begin(), known_, found->second);
    return known_.front().choice;
  }
  const std::uint64_t bytes = elements * element_bytes;
  const double partners_s = ranks_ > most_that_change_freely
                                ? margin_partners * link_.transfer_s(static_cast<double>(bytes))
                                : 0;
  const Choice best = best_of(price_class(class_), margin_scales * scale_s(bytes), partners_s);
  if (known_.size() == most_known) {
    const auto oldest = std::prev(known_.end());
    const auto [first, last] = by_hash_.equal_range(oldest->pattern_class.hash());
    by_hash_.erase(std::find_if(first, last, [&](auto& item) { return item.second == oldest; }));
    known_.pop_back();
  }
  known_.push_front({class_, best});
  by_hash_.emplace(hash, known_.begin());
  return known_.front().choice;
}

// The safe candidate is the first.
Choice Selector::best_of(const std::vector<Choice>& all, double margin_s, double partners_s) {
  const auto compared_s = [&](const Choice& choice) {
    if (choice.key.algorithm == all.front().key.algorithm) return choice.price_s;
    const Algorithm& algorithm = algorithms::find_algorithm(choice.key.algorithm, "all_reduce");
    const bool changes = (algorithm.uses == algorithms::Uses::nothing || algorithm.pricing.flow) &&
                         choice.key.arrivals_s.empty() && choice.key.ports.empty();
    return choice.price_s + margin_s + (changes ? partners_s : 0);
  };
  return *std::min_element(all.begin(), all.end(), [&](const Choice& a, const Choice& b) {
    return compared_s(a) < compared_s(b);
  });
}

Choice Selector::choose_beside_others(std::uint64_t elements, std::size_t element_bytes) {
  if (auto choice = by_rule(rules_.beside_others, elements, element_bytes)) return *choice;
  const Choice known = choose_known_beside_others(elements, element_bytes);
  if (!of_ranks_) return known;
  return for_ranks(known, of_ranks_->choose_beside_others(elements, element_bytes), elements,
                   std::vector<double>(std::size_t(nodes_.ranks()), 0));
}

Choice Selector::choose_known_beside_others(std::uint64_t elements, std::size_t element_bytes) {
  const std::lock_guard lock(mutex_);
  const auto found = beside_others_.find({elements, element_bytes});
  if (found != beside_others_.end()) return found->second;
  const std::vector<double> together(std::size_t(ranks_), 0);
  const algorithms::Bucket bucket{elements * element_bytes, elements};
  const std::vector<algorithms::Bucket> buckets(1 + others, bucket);
  const std::vector<std::vector<double>> arrivals_s(buckets.size(), together);
  classify(elements, element_bytes, {together, {}});
  std::vector<Choice> all;
  for (Choice& choice : price_class(class_)) {
    const Algorithm& algorithm = algorithms::find_algorithm(choice.key.algorithm, "all_reduce");
    if ((algorithm.uses == algorithms::Uses::times && !algorithm.by_port) || algorithm.dynamic())
      continue;
    const std::vector<Way> ways(buckets.size(), {&algorithm, choice.key.segments});
    pricing::PortsBusy busy;
    const auto finish_s = rollout_.finish_s(ways, buckets, arrivals_s, arrivals_s, busy);
    choice.price_s =
        *std::max_element(finish_s.begin(), finish_s.end()) / static_cast<double>(buckets.size());
    all.push_back(std::move(choice));
  }
  if (beside_others_.size() == most_known) beside_others_.clear();
  return beside_others_[{elements, element_bytes}] = best_of(
             all, margin_beside_others * link_.transfer_s(static_cast<double>(bucket.bytes)), 0);
}

std::vector<Choice> Selector::price_all(std::uint64_t elements, std::size_t element_bytes,
                                        const Forecast& forecast) {
  check(forecast, nodes_.ranks());
  const std::lock_guard lock(mutex_);
  classify(elements, element_bytes,
           {nodes_.latest(forecast.arrivals_s), nodes_.latest(forecast.errors_s)});
  std::vector<Choice> all = price_class(class_);
  for (Choice& choice : all)
    choice.key = nodes_.of_ranks(std::move(choice.key), elements, forecast.arrivals_s);
  return all;
}

std::vector<Choice> Selector::price_class(const PatternClass& pattern_class) {
  const algorithms::Bucket bucket{pattern_class.elements * pattern_class.element_bytes,
                                  pattern_class.elements};
  const Forecast forecast = representative(pattern_class, scale_s(bucket.bytes));
  std::vector<Choice> all;
  for (Priced& priced : pricer_.price(bucket, pattern_class, forecast)) {
    all.push_back({std::move(priced.key), priced.price_s});
  }
  return all;
}

}  // namespace patallreduce::selection
