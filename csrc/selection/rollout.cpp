#include "selection/rollout.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <utility>

#include "selection/samples.h"

namespace patallreduce::selection {

using algorithms::Uses;
using pricing::InFlight;
using pricing::PortsBusy;

namespace {

double value(const std::vector<double>& values, std::size_t rank) {
  return values.empty() ? 0 : values[rank];
}

// Messages that are cut as finely as they are sent would take too long to simulate.
int coarse(const Way& way, int ranks) {
  constexpr int enough = 8;
  if (!way.algorithm->pricing.parts) return way.segments;  // nobody says what could be left out
  const int parts = way.algorithm->pricing.parts(ranks);
  return std::min(way.segments, parts * ((enough + parts - 1) / parts));
}

// Who is at which place of the schedule; empty: rank r at place r.
std::vector<std::size_t> places(const Way& way, const std::vector<double>& expected_s,
                                const std::vector<double>& real_s) {
  if (way.algorithm->uses == Uses::order) return order_of(expected_s);
  if (way.algorithm->uses == Uses::real_order) return order_of(real_s);
  return {};
}

// By place: when it can take part.
std::vector<double> begins_s(const Way& way, const std::vector<std::size_t>& order,
                             double latency_s, const std::vector<double>& real_s) {
  if (order.empty()) return real_s;
  const std::vector<double> arrivals_s = in_order(real_s, order);
  return way.algorithm->dynamic() ? chain_begins_s(arrivals_s, latency_s) : arrivals_s;
}

void take_later(const std::vector<double>& by_place_s, const std::vector<std::size_t>& order,
                std::vector<double>& by_rank_s) {
  for (std::size_t place = 0; place < by_place_s.size(); ++place) {
    double& of_rank_s = by_rank_s[order.empty() ? place : order[place]];
    of_rank_s = std::max(of_rank_s, by_place_s[place]);
  }
}

// Whether a job has fallen into step: its last two iterations took as long, and the next one begins
// as the last one did, or nearly. Then so will all others.
class Settling {
 public:
  // After each iteration: what the next one depends on.
  void add(double end_s, const std::vector<std::vector<double>>& arrivals_s,
           const PortsBusy& busy) {
    const double before_s = std::exchange(iteration_s_, end_s - std::exchange(end_s_, end_s));
    std::vector<double> state_s;
    const double first_s = smallest(arrivals_s.front());
    for (const double at_s : arrivals_s.back()) state_s.push_back(at_s - end_s);
    for (const auto* until_s : {&busy.sends_until_s, &busy.receives_until_s})
      for (const double at_s : *until_s) state_s.push_back(std::max(at_s, first_s) - end_s);
    const auto near = [&](double a_s, double b_s) {
      return std::abs(a_s - b_s) <= iteration_s_ / 64;
    };
    settled_ = std::abs(iteration_s_ - before_s) <= iteration_s_ / 1024 &&
               std::equal(state_s.begin(), state_s.end(), state_s_.begin(), state_s_.end(), near);
    state_s_ = std::move(state_s);
  }
  bool settled() const { return settled_; }
  double iteration_s() const { return iteration_s_; }

 private:
  double end_s_ = HUGE_VAL, iteration_s_ = HUGE_VAL;
  std::vector<double> state_s_;
  bool settled_ = false;
};

}  // namespace

// One that is to be simulated: its collectives, and who is at which place of them.
struct Rollout::Iteration {
  std::vector<InFlight> collectives;
  std::vector<std::vector<std::size_t>> orders;         // by collective and place
  std::map<std::vector<double>, Simulation> generated;  // by what they are generated from

  // expected_s: what the schedule is made from; real_s: when ranks arrive.
  void add(Schedules& schedules, const Way& way, const Bucket& bucket, double latency_s,
           const std::vector<double>& expected_s, const std::vector<double>& real_s) {
    const int segments = coarse(way, static_cast<int>(real_s.size()));
    const Simulation* simulation;
    if (way.algorithm->uses == Uses::times) {
      const auto key = schedules.key_of(*way.algorithm, segments, bucket, {}, expected_s);
      std::vector<double> from = key.arrivals_s;
      from.push_back(segments);
      auto found = generated.find(from);
      if (found == generated.end())
        found = generated.emplace(from, schedules.generated(*way.algorithm, key)).first;
      simulation = &found->second;
    } else {
      simulation = &schedules.prepared(*way.algorithm, segments);
    }
    const auto order = places(way, expected_s, real_s);
    collectives.push_back({simulation,
                           bucket.bytes,
                           {order.begin(), order.end()},
                           begins_s(way, order, latency_s, real_s),
                           (way.segments + segments / 2) / segments});
    orders.push_back(order);
  }

  // When each rank has its last result.
  std::vector<double> finish_s(const Link& link, PortsBusy& busy) const {
    const std::vector<std::vector<double>> all_s = run_together(collectives, link, busy);
    std::vector<double> last_s(all_s.front().size(), -HUGE_VAL);
    for (std::size_t b = 0; b < all_s.size(); ++b) take_later(all_s[b], orders[b], last_s);
    return last_s;
  }
};

// The same, of one bucket after the other. last_s: when each rank has its last result so far.
void Rollout::estimate(const Way& way, const Bucket& bucket, const std::vector<double>& expected_s,
                       std::vector<double> real_s, std::vector<double>& last_s) const {
  for (std::size_t rank = 0; rank < real_s.size(); ++rank)
    real_s[rank] = std::max(real_s[rank], last_s[rank]);
  const auto order = places(way, expected_s, real_s);
  const auto bytes = static_cast<double>(bucket.bytes);
  const std::vector<double> arrivals_s = begins_s(way, order, link_.latency_s, real_s);
  take_later(way.algorithm->pricing.estimate(arrivals_s, way.segments, bytes, link_), order,
             last_s);
}

std::vector<double> Rollout::finish_s(const std::vector<Way>& ways,
                                      const std::vector<Bucket>& buckets,
                                      const std::vector<std::vector<double>>& expected_s,
                                      const std::vector<std::vector<double>>& real_s,
                                      PortsBusy& busy) {
  schedules_.make_room();
  const std::vector<double> together_s(std::size_t(ranks_), 0);
  std::vector<double> last_s(std::size_t(ranks_), -HUGE_VAL);
  Iteration iteration;
  algorithms::FlowingPorts ports{real_s.front(), real_s.front()};
  for (std::size_t b = 0; b < ways.size(); ++b) {
    const std::vector<double>& of_all_s =
        ways[b].algorithm->uses == Uses::order ? expected_s.back() : expected_s[b];
    const std::vector<double>& planned_s = ways[b].planned ? of_all_s : together_s;
    if (flows(*ways[b].algorithm, link_)) {
      for (std::vector<double>* const until_s : {&ports.values_until_s, &ports.all_until_s})
        take_later(real_s[b], {}, *until_s);
      take_later(ways[b].algorithm->pricing.flow(planned_s, ports, ways[b].segments,
                                                 static_cast<double>(buckets[b].bytes), link_),
                 {}, last_s);
    } else if (estimates(*ways[b].algorithm)) {
      estimate(ways[b], buckets[b], planned_s, real_s[b], last_s);
    } else {
      iteration.add(schedules_, ways[b], buckets[b], link_.latency_s, planned_s, real_s[b]);
    }
  }
  if (!iteration.collectives.empty()) take_later(iteration.finish_s(link_, busy), {}, last_s);
  return last_s;
}

std::size_t Rollout::messages(const Way& way, std::size_t buckets) {
  const auto ranks = std::size_t(ranks_);
  if (estimates(*way.algorithm) || flows(*way.algorithm, link_)) return 0;
  if (way.algorithm->uses == Uses::times) return 2 * ranks * (ranks - 1) * buckets;
  return schedules_.prepared(*way.algorithm, coarse(way, ranks_)).messages() * buckets;
}

Ends Rollout::ends_s(const std::vector<Way>& ways, const std::vector<Way>& then,
                     const IterationForecast& forecast, int sample, const Ends& limits_s) {
  const auto ranks = std::size_t(ranks_);
  const std::vector<double>& last_s = forecast.arrivals_s.back();
  const double side = sample == 0 ? 0 : sample % 2 == 1 ? 1 : -1;
  const auto series = static_cast<std::uint64_t>((sample + 1) / 2);
  std::vector<std::vector<double>> expected_s = forecast.arrivals_s;
  PortsBusy busy;
  Ends ends_s = no_limits();
  double end_s = -HUGE_VAL;
  Settling settling;
  const auto run = [&](int i) {
    const std::vector<double>& spread_s = i == 0 ? forecast.errors_s : forecast.spreads_s;
    std::vector<std::vector<double>> real_s = expected_s;
    for (std::size_t rank = 0; rank < ranks && side != 0; ++rank) {
      const std::uint64_t counter = (series * look_ahead + std::uint64_t(i)) * ranks + rank;
      const double off_s = side * normal(counter) * value(spread_s, rank);
      for (auto& of_bucket_s : real_s) of_bucket_s[rank] += off_s;
      // Its own plan will know as much of it as this one knows.
      const double error_s = std::min(value(forecast.errors_s, rank), value(spread_s, rank));
      const double known_s = error_s > 0 ? off_s * (1 - error_s / value(spread_s, rank)) : off_s;
      for (auto& of_bucket_s : expected_s) of_bucket_s[rank] += known_s;
    }
    const std::vector<double> last_results_s =
        finish_s(i == 0 ? ways : then, forecast.buckets, expected_s, real_s, busy);
    const double all_s = forecast.barrier ? largest(last_results_s) : -HUGE_VAL;
    for (std::size_t rank = 0; rank < ranks; ++rank) {
      const double next_s = std::max(last_results_s[rank], all_s) + value(forecast.compute_s, rank);
      end_s = std::max(end_s, next_s);
      for (std::size_t b = 0; b < ways.size(); ++b)
        expected_s[b][rank] = next_s - (last_s[rank] - forecast.arrivals_s[b][rank]);
    }
    if (side == 0) settling.add(end_s, expected_s, busy);
  };
  for (int i = 0; i < look_ahead; ++i) {
    if (settling.settled()) {
      end_s += settling.iteration_s();
    } else {
      run(i);
    }
    if (end_s > limits_s[std::size_t(i)]) break;
    ends_s[std::size_t(i)] = end_s;
  }
  return ends_s;
}

}  // namespace patallreduce::selection
