#include "monitor/leader.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "overloaded.h"
#include "prediction/times.h"

namespace patallreduce::monitor {

using prediction::is_duration;
using prediction::is_time;

namespace {

// How long before the first bucket a plan is due, as a share of the time from the start on: it has
// to be decided and handed round.
constexpr double lead = 1.0 / 16;
constexpr std::size_t most_edges = 64;
constexpr double smoothing = 0.3;  // weight of the newest computation time
constexpr std::size_t most_loops = 256;
// A single time that is more than so many median computations long teaches no more than that.
constexpr double longest_believed = 10;
constexpr double deviations_per_spread = 1.25;  // of normal values, from their mean deviation

const IterationId& id_of(const Report& report) {
  return std::visit([](const auto& r) -> const IterationId& { return r.id; }, report);
}

double median(std::vector<double> values) {
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

}  // namespace

std::optional<Plan> Leader::take(int from, const Report& report, double now_s, Records& records) {
  const IterationId id = id_of(report);
  if (loops_.size() >= most_loops && !loops_.count(id.loop)) {
    if (!std::holds_alternative<Asked>(report)) return std::nullopt;
    return Plan{id.loop, id.iteration, {}};
  }
  Loop& loop = loops_[id.loop];
  if (loop.ranks.empty()) {
    const auto job = std::make_shared<Job>(ranks_);
    loop.ranks.reserve(ranks_);
    for (int r = 0; r < ranks_; ++r) loop.ranks.emplace_back(job);
  }
  Rank& rank = loop.ranks[from];
  if (id.iteration < rank.iteration) {  // out of its time; but who asks waits for an answer
    const bool asks = std::holds_alternative<Asked>(report);
    if (!asks || id.iteration <= loop.planned) return std::nullopt;
    return decide(loop, id, now_s, records);
  }
  enter(rank, id.iteration);
  std::visit([&](const auto& r) { records.take(from, r); }, report);
  const Overloaded asks{
      [&](const Started& r) {
        if (!is_time(r.at_s)) return false;
        rank.predictor.start(r.at_s);
        const auto last = std::max_element(r.finish_s.begin(), r.finish_s.end());
        rank.free_s = last != r.finish_s.end() && is_time(*last) ? *last : r.at_s;
        rank.start_s = r.at_s;
        rank.started = true;
        start(loop, id, records);
        return false;
      },
      [&](const EdgeReached& r) {
        rank.predictor.edge(r.fraction, r.at_s);
        if (r.fraction > rank.newest_edge && r.fraction < 1 && rank.edges.size() < most_edges) {
          rank.newest_edge = r.fraction;
          rank.edges.emplace_back(r.fraction, r.at_s);
        }
        return false;
      },
      [&](const Asked& r) {
        rank.predictor.arrive(0, r.at_s);
        return true;
      },
      [&](const Arrived& r) {
        rank.finish(r);
        if (from == 0) loop.sizes = r.sizes;
        learn(loop, id.iteration);
        return false;
      },
  };
  const bool asked = std::visit(asks, report);
  if (id.iteration <= loop.planned && !loop.asking.count(id.iteration)) return std::nullopt;
  const bool known = asked || (loop.starting == id.iteration && loop.started == ranks_);
  const bool decides = (known && goes_without(loop, id.iteration)) ||
                       (asked && waited_enough(loop, id.iteration, now_s));
  if (!decides && !due(loop, id.iteration)) return std::nullopt;
  return decide(loop, id, now_s, records);
}

// One more rank has started, and told the end of its iteration before.
void Leader::start(Loop& loop, const IterationId& id, const Records& records) const {
  if (id.iteration > loop.starting) {
    loop.starting = id.iteration;
    loop.started = 0;
  }
  if (id.iteration < loop.starting || ++loop.started < ranks_ || loop.sizes.empty()) return;
  const IterationRecord* const over = records.find({id.loop, id.iteration - 1});
  const IterationRecord* const before = records.find({id.loop, id.iteration - 2});
  if (!over) return;
  // After the last arrival a ring still has the last bucket to move. Links are measured wrongly,
  // too: by a factor of four at most, and a bandwidth that was too low makes the ring too long.
  const double ring_s = 2.0 * (ranks_ - 1) / ranks_ * transfer_s(loop.sizes.back());
  loop.guards.over(before, *over, ring_s / 8);
}

bool Leader::goes_without(Loop& loop, std::int64_t iteration) const {
  if (!choose_.plan || !guarded_) return false;
  std::optional<Way> way = loop.guards.chosen(iteration);
  if (!way) {
    const auto regime = Guards::regime_of(lateness_s(loop), transfer_s(loop));
    way = loop.guards.choose(iteration, regime);
  }
  return *way == Way::plain;
}

double Leader::transfer_s(const BucketSize& size) const {
  return patience_s_per_byte_ * static_cast<double>(size.elements) * size.element_bytes;
}

double Leader::transfer_s(const Loop& loop) const {
  double seconds = 0;
  for (const BucketSize& size : loop.sizes) seconds += transfer_s(size);
  return seconds;
}

// By how much each rank computes longer than the median, again and again. Within a rank's own ups
// and downs a difference from the others is chance.
std::vector<double> Leader::lateness_s(const Loop& loop) const {
  std::vector<double> lateness;
  for (const Rank& rank : loop.ranks) {
    const double lasting_s = std::max(std::abs(rank.longer_s) - 2 * rank.spread_s, 0.0);
    lateness.push_back(std::copysign(lasting_s, rank.longer_s));
  }
  return lateness;
}

// Compared with the median rank's, since a pause of all ranks says nothing of the next iteration.
void Leader::learn(Loop& loop, std::int64_t iteration) const {
  std::vector<double> computed_s;
  for (const Rank& rank : loop.ranks) {
    if (rank.arrived != iteration || !rank.started || !is_duration(rank.computed_s)) return;
    computed_s.push_back(rank.computed_s);
  }
  const double middle_s = median(computed_s);
  const bool first = loop.learned < 0;
  loop.learned = iteration;
  loop.compute_s =
      first
          ? middle_s
          : loop.compute_s + smoothing * (std::min(middle_s, 2 * loop.compute_s) - loop.compute_s);
  for (Rank& rank : loop.ranks) {
    const double most_s = longest_believed * loop.compute_s;
    const double longer_s = std::clamp(rank.computed_s - middle_s, -most_s, most_s);
    if (first) rank.longer_s = longer_s;
    rank.spread_s += smoothing * (std::abs(longer_s - rank.longer_s) - rank.spread_s);
    rank.longer_s += smoothing * (longer_s - rank.longer_s);
  }
  if (loop.planned == iteration) expect_results(loop, iteration);
}

// All ranks have arrived. Whom the all-reduce lets go last also starts last, long after the first
// may need a plan.
void Leader::expect_results(Loop& loop, std::int64_t iteration) const {
  IterationForecast arrived;
  for (std::size_t b = 0; b < loop.sizes.size(); ++b) {
    const std::uint64_t elements = loop.sizes[b].elements;
    arrived.buckets.push_back({elements * loop.sizes[b].element_bytes, elements});
    arrived.arrivals_s.emplace_back();
    for (const Rank& rank : loop.ranks) {
      if (rank.arrivals_s.size() != loop.sizes.size() || !is_time(rank.arrivals_s[b])) return;
      arrived.arrivals_s.back().push_back(rank.arrivals_s[b]);
    }
  }
  const std::size_t planned = loop.keys.size();
  if (!choose_.finish_s || (planned != 0 && planned != loop.sizes.size())) return;
  const std::vector<double> finish_s = choose_.finish_s(loop.keys, arrived);
  if (finish_s.empty()) return;
  for (std::size_t r = 0; r < finish_s.size(); ++r) loop.ranks[r].predictor.result(finish_s[r]);
  loop.guards.expect(iteration, *std::max_element(finish_s.begin(), finish_s.end()));
}

std::optional<Guard> Leader::guard(std::int64_t loop) const {
  const auto found = loops_.find(loop);
  if (found == loops_.end()) return std::nullopt;
  return found->second.guards.guard();
}

void Leader::Rank::finish(const Arrived& report) {
  predictor.finish(report.arrivals_s);
  arrived = report.id.iteration;
  arrivals_s = report.arrivals_s;
  if (arrivals_s.empty()) return;
  const double due_s = arrivals_s.front() - lead * std::max(arrivals_s.front() - start_s, 0.0);
  usual_edge = 0;
  for (const auto& [fraction, at_s] : edges)
    if (at_s <= due_s) usual_edge = fraction;
  computed_s = std::max(*std::max_element(arrivals_s.begin(), arrivals_s.end()) - free_s, 0.0);
}

// One more rank asks.
bool Leader::waited_enough(Loop& loop, std::int64_t iteration, double now_s) const {
  Asking& asking = loop.asking[iteration];
  if (asking.ranks == 0)
    asking.until_s = now_s + std::min(transfer_s(loop), doubt_s(loop, iteration, now_s));
  return ++asking.ranks >= (ranks_ + 1) / 2 || now_s >= asking.until_s;
}

// How long it may pay to wait for what others can tell: no longer than the most doubtful of them
// may be late or early. Who is silent though something of it was due is in doubt.
double Leader::doubt_s(const Loop& loop, std::int64_t iteration, double now_s) const {
  double doubt_s = 0;
  for (const Rank& rank : loop.ranks) {
    for (std::size_t b = 0; b < loop.sizes.size(); ++b) {
      const Prediction prediction = predict(rank, iteration, b, now_s);
      if (!prediction.known) return std::numeric_limits<double>::infinity();
      doubt_s = std::max(doubt_s, 2 * prediction.error_s + prediction.silence_s);
    }
  }
  return loop.sizes.empty() ? std::numeric_limits<double>::infinity() : doubt_s;
}

std::optional<Plan> Leader::overdue(double now_s, Records& records) {
  for (auto& [number, loop] : loops_)
    for (const auto& [iteration, asking] : loop.asking)
      if (now_s >= asking.until_s) return decide(loop, {number, iteration}, now_s, records);
  return std::nullopt;
}

double Leader::next_overdue_s() const {
  double next_s = std::numeric_limits<double>::infinity();
  for (const auto& [number, loop] : loops_)
    for (const auto& [iteration, asking] : loop.asking) next_s = std::min(next_s, asking.until_s);
  return next_s;
}

void Leader::enter(Rank& rank, std::int64_t iteration) {
  if (iteration == rank.iteration) return;
  rank.iteration = iteration;
  rank.edges.clear();
  rank.newest_edge = 0;
  rank.started = false;
}

bool Leader::due(const Loop& loop, std::int64_t iteration) const {
  return std::all_of(loop.ranks.begin(), loop.ranks.end(),
                     [&](const Rank& rank) { return rank.iteration == iteration && rank.ready(); });
}

Plan Leader::decide(Loop& loop, const IterationId& id, double now_s, Records& records) {
  loop.planned = std::max(loop.planned, id.iteration);
  loop.asking.erase(id.iteration);
  Plan plan{id.loop, id.iteration, {}};
  std::vector<std::vector<double>> predicted_s;
  const bool without = goes_without(loop, id.iteration);  // what is predicted is told all the same
  const IterationForecast expected = forecast(loop, id.iteration, now_s, predicted_s);
  const bool predicts = choose_.plan && !loop.sizes.empty();
  if (predicts && expected.buckets.empty()) return plan;  // nothing to go by yet
  const auto chosen = predicts && !without ? choose_.plan(expected) : std::nullopt;
  loop.keys = chosen ? chosen->keys : std::vector<ScheduleKey>();
  for (std::size_t b = 0; chosen && b < chosen->keys.size(); ++b) {
    const BucketSize& size = loop.sizes[b];
    plan.buckets.push_back({size.elements, size.element_bytes, chosen->keys[b]});
  }
  if (!plan.buckets.empty())
    loop.guards.promise(id.iteration, chosen->plain_pace_s - chosen->pace_s);
  const auto ready = std::count_if(loop.ranks.begin(), loop.ranks.end(), [&](const Rank& rank) {
    return rank.iteration == id.iteration && rank.ready();
  });
  records.decided(id, now_s, static_cast<int>(ready), predicted_s);
  return plan;
}

// Of a rank that has arrived already there is nothing to predict.
Prediction Leader::predict(const Rank& rank, std::int64_t iteration, std::size_t bucket,
                           double now_s) {
  if (rank.arrived < iteration) return rank.predictor.predict(bucket, now_s);
  const bool noted = rank.arrived == iteration && bucket < rank.arrivals_s.size() &&
                     is_time(rank.arrivals_s[bucket]);
  return {noted ? rank.arrivals_s[bucket] : now_s, 0, true};
}

// No buckets: there is nothing to go by yet. A rank's errors are those of its last bucket.
IterationForecast Leader::forecast(const Loop& loop, std::int64_t iteration, double now_s,
                                   std::vector<std::vector<double>>& predicted_s) const {
  IterationForecast forecast;
  if (!choose_.plan) return forecast;
  for (std::size_t b = 0; b < loop.sizes.size(); ++b) {
    predicted_s.emplace_back();
    if (!predict(loop, iteration, b, now_s, predicted_s.back(), forecast)) return {};
    const std::uint64_t elements = loop.sizes[b].elements;
    forecast.buckets.push_back({elements * loop.sizes[b].element_bytes, elements});
  }
  if (loop.learned < 0) return forecast;
  for (const Rank& rank : loop.ranks) {
    forecast.compute_s.push_back(std::max(loop.compute_s + rank.longer_s, 0.0));
    forecast.spreads_s.push_back(deviations_per_spread * rank.spread_s);
  }
  return forecast;
}

// Ranks of which nothing is known are taken for the median of the others, doubtfully.
bool Leader::predict(const Loop& loop, std::int64_t iteration, std::size_t bucket, double now_s,
                     std::vector<double>& predicted_s, IterationForecast& forecast) const {
  predicted_s.assign(ranks_, std::numeric_limits<double>::quiet_NaN());
  forecast.errors_s.assign(ranks_, 0);
  std::vector<double> known;
  for (int r = 0; r < ranks_; ++r) {
    const Prediction prediction = predict(loop.ranks[r], iteration, bucket, now_s);
    if (!prediction.known) continue;
    predicted_s[r] = prediction.arrival_s;
    forecast.errors_s[r] = prediction.error_s;
    known.push_back(prediction.arrival_s);
  }
  if (known.empty()) return false;
  forecast.arrivals_s.push_back(predicted_s);
  const double middle_s = median(known);
  const auto [least, most] = std::minmax_element(known.begin(), known.end());
  for (int r = 0; r < ranks_; ++r) {
    if (std::isnan(predicted_s[r])) {
      forecast.arrivals_s.back()[r] = middle_s;
      forecast.errors_s[r] = *most - *least;
    }
  }
  return true;
}

}  // namespace patallreduce::monitor
