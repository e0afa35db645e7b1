#include "selection/price.h"

#include <algorithm>
#include <cmath>

#include "selection/samples.h"

namespace patallreduce::selection {

using algorithms::Uses;

namespace {

constexpr int most_simulated_alone = 32;
constexpr int many_ranks = 16;  // from here on fewer samples
// Large enough to part choices that free the last rank alike, too small to delay it for the others.
constexpr double average_weight = 0.1;
// By so much an estimate is dearer than the safe candidate's that a simulation can be saved.
constexpr double hopeless = 1.25;

// The mean, and pairs of samples to both sides of it: their mean is the forecast's.
std::vector<std::vector<double>> sampled(const Forecast& forecast) {
  const std::size_t ranks = forecast.arrivals_s.size();
  std::vector<std::vector<double>> patterns{forecast.arrivals_s};
  const auto doubtful = [](double error_s) { return error_s > 0; };
  if (std::none_of(forecast.errors_s.begin(), forecast.errors_s.end(), doubtful)) return patterns;
  const std::size_t pairs = ranks > std::size_t(many_ranks) ? 1 : 2;
  for (std::size_t pair = 0; pair < pairs; ++pair) {
    std::vector<double> later(ranks), earlier(ranks);
    for (std::size_t rank = 0; rank < ranks; ++rank) {
      const double off_s = normal(pair * ranks + rank) * forecast.errors_s[rank];
      later[rank] = forecast.arrivals_s[rank] + off_s;
      earlier[rank] = forecast.arrivals_s[rank] - off_s;
    }
    patterns.push_back(std::move(later));
    patterns.push_back(std::move(earlier));
  }
  return patterns;
}

double objective_s(const std::vector<double>& finish_s, const std::vector<double>& arrivals_s) {
  double last_s = -HUGE_VAL, elapsed_s = 0;
  for (std::size_t rank = 0; rank < finish_s.size(); ++rank) {
    last_s = std::max(last_s, finish_s[rank]);
    elapsed_s += finish_s[rank] - arrivals_s[rank];
  }
  return last_s + average_weight * elapsed_s / static_cast<double>(finish_s.size());
}

}  // namespace

// How ranks may arrive, in some order of the ranks.
struct Pricer::Pattern {
  std::vector<double> arrivals_s;
  std::vector<double> begins_s;  // when each can take part, if that is not when it arrives

  // The ranks' values in `order`.
  Pattern in(const std::vector<std::size_t>& order) const {
    return {in_order(arrivals_s, order), {}};
  }

  Pattern as_a_chain_grows(double latency_s) const {
    Pattern chain = in(order_of(arrivals_s));
    chain.begins_s = chain_begins_s(chain.arrivals_s, latency_s);
    return chain;
  }
};

// The forecast and its samples.
struct Pricer::Patterns {
  std::vector<Pattern> by_rank, by_order, by_real_order;

  Patterns(const Forecast& forecast, double latency_s) {
    for (std::vector<double>& arrivals_s : sampled(forecast))
      by_rank.push_back({std::move(arrivals_s), {}});
    const std::vector<std::size_t> order = order_of(by_rank.front().arrivals_s);
    for (const Pattern& pattern : by_rank) {
      by_order.push_back(pattern.in(order));
      by_real_order.push_back(pattern.as_a_chain_grows(latency_s));
    }
  }

  bool doubtful() const { return by_rank.size() > 1; }

  // Mean over the patterns; `finish` tells when every rank is done.
  template <typename Finish>
  double mean_s(Uses uses, const Finish& finish) const {
    const std::vector<Pattern>& patterns = uses == Uses::order        ? by_order
                                           : uses == Uses::real_order ? by_real_order
                                                                      : by_rank;
    double sum_s = 0;
    for (const Pattern& pattern : patterns) {
      const auto& begins_s = pattern.begins_s.empty() ? pattern.arrivals_s : pattern.begins_s;
      sum_s += objective_s(finish(begins_s), pattern.arrivals_s);
    }
    return sum_s / static_cast<double>(patterns.size());
  }
};

Pricer::Pricer(int ranks, const Link& link, bool by_node)
    : ranks_(ranks), link_(link), by_node_(by_node), schedules_(ranks, link) {}

std::vector<Priced> Pricer::price(const Bucket& bucket, const PatternClass& pattern_class,
                                  const Forecast& forecast) {
  const Patterns patterns(forecast, link_.latency_s);
  const auto arrivals = pattern_class.levels.begin();
  const std::vector<std::int32_t> levels(arrivals, arrivals + ranks_);
  schedules_.make_room();
  std::vector<Priced> all;
  double safe_s = HUGE_VAL;  // the first candidate's estimate
  for (const Algorithm* algorithm : algorithms::candidates(by_node_)) {
    const Algorithm& candidate = *algorithm;
    const bool has_estimate = candidate.pricing.estimate != nullptr;
    if (candidate.uses == Uses::real_order && !patterns.doubtful())
      continue;  // it is the forecast's
    const int segments = segments_for(candidate, ranks_, bucket, link_);
    if (flows(candidate, link_)) {
      if (ranks_ > most_flowing_ranks) continue;
      all.push_back({schedules_.key_of(candidate, segments, bucket, levels, forecast.arrivals_s),
                     flowed_s(candidate, segments, bucket, patterns)});
      continue;
    }
    double estimate_s = HUGE_VAL;
    if (has_estimate) {
      estimate_s = estimated_s(candidate, segments, bucket, patterns);
      if (all.empty()) safe_s = estimate_s;
    }
    const bool hopes = estimate_s <= hopeless * safe_s || link_.processors > 0;  // not of ports
    const bool simulates = ranks_ <= most_simulated_alone && (!has_estimate || hopes);
    if (!simulates && !has_estimate) continue;
    ScheduleKey key = schedules_.key_of(candidate, segments, bucket, levels, forecast.arrivals_s);
    const double price_s = simulates ? simulated_s(candidate, key, bucket, patterns) : estimate_s;
    all.push_back({std::move(key), price_s});
  }
  return all;
}

double Pricer::estimated_s(const Algorithm& candidate, int segments, const Bucket& bucket,
                           const Patterns& patterns) const {
  return patterns.mean_s(candidate.uses, [&](const std::vector<double>& pattern) {
    return candidate.pricing.estimate(pattern, segments, static_cast<double>(bucket.bytes), link_);
  });
}

double Pricer::flowed_s(const Algorithm& candidate, int segments, const Bucket& bucket,
                        const Patterns& patterns) const {
  const std::vector<double>& expected_s = patterns.by_rank.front().arrivals_s;
  return patterns.mean_s(candidate.uses, [&](const std::vector<double>& pattern) {
    algorithms::FlowingPorts ports{pattern, pattern};
    return candidate.pricing.flow(expected_s, ports, segments, static_cast<double>(bucket.bytes),
                                  link_);
  });
}

double Pricer::simulated_s(const Algorithm& candidate, const ScheduleKey& key, const Bucket& bucket,
                           const Patterns& patterns) {
  const auto run = [&](const Simulation& simulation) {
    return patterns.mean_s(candidate.uses, [&](const std::vector<double>& pattern) {
      return simulation.run(bucket.bytes, link_, pattern).finish_s;
    });
  };
  if (candidate.uses != Uses::times) return run(schedules_.prepared(candidate, key.segments));
  return run(schedules_.generated(candidate, key));
}

}  // namespace patallreduce::selection
