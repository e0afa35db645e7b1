#include "monitor/ranks.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "prediction/times.h"

namespace patallreduce::monitor {

using prediction::is_duration;
using prediction::is_time;
using prediction::median;
using selection::Bucket;

namespace {

// How long before the first bucket a plan is due, as a share of the time from the start on: it has
// to be decided and handed round.
constexpr double lead = 1.0 / 16;
constexpr std::size_t most_edges = 64;
constexpr double smoothing = 0.3;  // weight of the newest computation time
// A single time that is more than so many median computations long teaches no more than that,
// unless the last rank is usually as late.
constexpr double longest_believed = 10;
// Than the last rank usually is late.
constexpr double much_more = 2;
// Of the transfer time of an iteration's messages: what differs by less says nothing of a barrier.
constexpr double noise = 1.0 / 32;
constexpr double deviations_per_spread = 1.25;  // of normal values, from their mean deviation

}  // namespace

void Rank::enter(std::int64_t iteration) {
  if (iteration == iteration_) return;
  iteration_ = iteration;
  edges_.clear();
  newest_edge_ = 0;
  started_ = false;
  asked_later_s_ = NAN;
}

bool Rank::start(const Started& report) {
  if (!is_time(report.at_s)) return false;
  predictor_.start(report.at_s);
  const auto last = std::max_element(report.finish_s.begin(), report.finish_s.end());
  free_s_ = last != report.finish_s.end() && is_time(*last) ? *last : report.at_s;
  start_s_ = report.at_s;
  started_ = true;
  return true;
}

void Rank::edge(const EdgeReached& report) {
  predictor_.edge(report.fraction, report.at_s);
  if (report.fraction <= newest_edge_ || report.fraction >= 1 || edges_.size() >= most_edges)
    return;
  newest_edge_ = report.fraction;
  edges_.emplace_back(report.fraction, report.at_s);
}

void Rank::finish(const Arrived& report, double answer_s) {
  predictor_.finish(report.arrivals_s);
  arrived_ = report.id.iteration;
  arrivals_s_ = report.arrivals_s;
  if (arrivals_s_.empty()) return;
  const double computed_s = std::max(arrivals_s_.front() - start_s_, 0.0);
  const double due_s = arrivals_s_.front() - std::max(lead * computed_s, answer_s);
  usual_edge_ = 0;
  for (const auto& [fraction, at_s] : edges_)
    if (at_s <= due_s) usual_edge_ = fraction;
  last_arrival_s_ = *std::max_element(arrivals_s_.begin(), arrivals_s_.end());
}

void Rank::ask(const Asked& report) {
  const Prediction before = predictor_.predict(0, NAN);
  if (before.known && std::isnan(asked_later_s_)) asked_later_s_ = report.at_s - before.arrival_s;
  predictor_.arrive(0, report.at_s);
}

bool Rank::has_computed(std::int64_t iteration) const {
  return arrived_ == iteration && started_ && is_duration(std::max(last_arrival_s_ - free_s_, 0.0));
}

void Rank::computed_longer(double by_s, double much_s) {
  const double twice_s = std::min(by_s, last_longer_s_);
  if (twice_s > std::max(much_s, 2 * longer_s_.mean())) {
    longer_s_ = prediction::Smoothed(longer_share);
    longer_s_.add(last_longer_s_);
  }
  longer_s_.add(by_s);
  last_longer_s_ = by_s;
}

// Of a rank that has arrived already there is nothing to predict.
Prediction Rank::predict(std::int64_t iteration, std::size_t bucket, double now_s) const {
  if (arrived_ < iteration) {
    const double apart_s =
        pause_longer_s_.count() > 1 ? deviations_per_spread * pause_longer_s_.off() : HUGE_VAL;
    return predictor_.predict(bucket, now_s, apart_s);
  }
  const bool noted =
      arrived_ == iteration && bucket < arrivals_s_.size() && is_time(arrivals_s_[bucket]);
  return {noted ? arrivals_s_[bucket] : now_s, 0, true};
}

Ranks::Ranks(int ranks) : at_starts_(ranks), at_arrivals_(ranks) {
  const auto job = std::make_shared<Job>(ranks);
  for (int rank = 0; rank < ranks; ++rank) ranks_.emplace_back(job);
}

int Ranks::ready(std::int64_t iteration) const {
  return static_cast<int>(std::count_if(ranks_.begin(), ranks_.end(), [&](const Rank& rank) {
    return rank.iteration() == iteration && rank.ready();
  }));
}

bool Ranks::report_progress() const {
  return std::all_of(ranks_.begin(), ranks_.end(),
                     [](const Rank& rank) { return rank.reports_progress(); });
}

// Compared with the median rank's, since a pause of all ranks says nothing of the next iteration.
bool Ranks::learn(std::int64_t iteration, double transfer_s) {
  std::vector<double> free_s, started_s, arrived_s, paused_s;
  for (const Rank& rank : ranks_) {
    if (!rank.has_computed(iteration)) return false;
    free_s.push_back(rank.free_s());
    started_s.push_back(rank.start_s());
    paused_s.push_back(rank.start_s() - rank.free_s());
    arrived_s.push_back(rank.last_arrival_s());
  }
  at_arrivals_.add(free_s, arrived_s, noise * transfer_s);
  if (std::all_of(ranks_.begin(), ranks_.end(), [](const Rank& rank) { return rank.started(); }))
    at_starts_.add(free_s, started_s, noise * transfer_s);
  const double all_free_s = barrier() ? selection::largest(free_s) : -HUGE_VAL;
  std::vector<double> computed_s;
  for (std::size_t r = 0; r < ranks_.size(); ++r)
    computed_s.push_back(std::max(arrived_s[r] - std::max(free_s[r], all_free_s), 0.0));
  const double middle_s = median(computed_s), middle_pause_s = median(paused_s);
  for (std::size_t r = 0; r < ranks_.size(); ++r)
    ranks_[r].paused_longer(paused_s[r] - middle_pause_s);
  if (!learned_) compute_s_ = middle_s;
  learned_ = true;
  compute_s_ += smoothing * (std::min(middle_s, 2 * compute_s_) - compute_s_);
  const double much_s = much_more * last_s_.middle();
  const double most_s = std::max(longest_believed * compute_s_, much_s);
  for (std::size_t r = 0; r < ranks_.size(); ++r)
    ranks_[r].computed_longer(std::clamp(computed_s[r] - middle_s, -most_s, most_s), much_s);
  std::sort(computed_s.begin(), computed_s.end());
  last_s_.add(computed_s.back() - computed_s[(computed_s.size() - 1) / 2]);
  return true;
}

// Within a rank's own ups and downs a difference from the others is chance.
std::vector<double> Ranks::lateness_s() const {
  std::vector<double> lateness_s;
  for (const Rank& rank : ranks_) {
    const double longer_s = rank.longer_s().mean();
    const double lasting_s = std::max(std::abs(longer_s) - 2 * rank.longer_s().off(), 0.0);
    lateness_s.push_back(std::copysign(lasting_s, longer_s));
  }
  return lateness_s;
}

double Ranks::doubt_s(std::int64_t iteration, std::size_t buckets, double now_s) const {
  double doubt_s = buckets == 0 ? std::numeric_limits<double>::infinity() : 0;
  for (const Rank& rank : ranks_) {
    for (std::size_t b = 0; b < buckets; ++b) {
      const Prediction prediction = rank.predict(iteration, b, now_s);
      if (!prediction.known) return std::numeric_limits<double>::infinity();
      doubt_s = std::max(doubt_s, 2 * prediction.error_s + prediction.silence_s);
    }
  }
  return doubt_s;
}

IterationForecast Ranks::forecast(std::int64_t iteration, const std::vector<Bucket>& buckets,
                                  double now_s,
                                  std::vector<std::vector<double>>& predicted_s) const {
  IterationForecast forecast;
  for (std::size_t b = 0; b < buckets.size(); ++b) {
    predicted_s.emplace_back();
    if (!predict(iteration, b, now_s, predicted_s.back(), forecast)) return {};
    forecast.buckets.push_back(buckets[b]);
  }
  forecast.barrier = barrier();
  for (std::size_t r = 0; learned_ && r < ranks_.size(); ++r) {
    const prediction::Smoothed& longer_s = ranks_[r].longer_s();
    forecast.compute_s.push_back(std::max(compute_s_ + longer_s.mean(), 0.0));
    forecast.spreads_s.push_back(deviations_per_spread * longer_s.off());
  }
  return forecast;
}

// What moves all ranks alike: where all of half of them have come before their time, such as after
// a shorter pause than usual, or all after it, the others do, too, by the least of it.
double Ranks::all_later_s(std::int64_t iteration) const {
  std::vector<double> later_s;
  for (const Rank& rank : ranks_)
    if (rank.iteration() == iteration && !std::isnan(rank.asked_later_s()))
      later_s.push_back(rank.asked_later_s());
  if (later_s.empty() || 2 * later_s.size() < ranks_.size()) return 0;
  const auto [least, most] = std::minmax_element(later_s.begin(), later_s.end());
  return std::max(*least, 0.0) + std::min(*most, 0.0);
}

// Ranks of which nothing is known are taken for the median of the others, doubtfully.
bool Ranks::predict(std::int64_t iteration, std::size_t bucket, double now_s,
                    std::vector<double>& predicted_s, IterationForecast& forecast) const {
  predicted_s.assign(ranks_.size(), std::numeric_limits<double>::quiet_NaN());
  forecast.errors_s.assign(ranks_.size(), 0);
  const double all_later_s = this->all_later_s(iteration);
  std::vector<double> known;
  for (std::size_t r = 0; r < ranks_.size(); ++r) {
    Prediction prediction = ranks_[r].predict(iteration, bucket, now_s);
    if (!prediction.known) continue;
    if (prediction.arrival_s > now_s || prediction.silence_s > 0) {
      const double later_s =
          std::max(all_later_s - prediction.silence_s, std::min(all_later_s, 0.0));
      prediction.arrival_s = std::max(prediction.arrival_s + later_s, now_s);
    }
    predicted_s[r] = prediction.arrival_s;
    forecast.errors_s[r] = prediction.error_s;
    known.push_back(prediction.arrival_s);
  }
  if (known.empty()) return false;
  forecast.arrivals_s.push_back(predicted_s);
  const double middle_s = median(known);
  const auto [least, most] = std::minmax_element(known.begin(), known.end());
  for (std::size_t r = 0; r < ranks_.size(); ++r) {
    if (!std::isnan(predicted_s[r])) continue;
    forecast.arrivals_s.back()[r] = middle_s;
    forecast.errors_s[r] = *most - *least;
  }
  return true;
}

IterationForecast Ranks::arrived(const std::vector<Bucket>& buckets) const {
  IterationForecast arrived;
  arrived.buckets = buckets;
  for (std::size_t b = 0; b < buckets.size(); ++b) {
    arrived.arrivals_s.emplace_back();
    for (const Rank& rank : ranks_) {
      const std::vector<double>& arrivals_s = rank.arrivals_s();
      if (arrivals_s.size() != buckets.size() || !is_time(arrivals_s[b])) return {};
      arrived.arrivals_s.back().push_back(arrivals_s[b]);
    }
  }
  return arrived;
}

void Ranks::expect_results(const std::vector<double>& finish_s) {
  const double all_s = barrier() ? selection::largest(finish_s) : -HUGE_VAL;
  for (std::size_t r = 0; r < finish_s.size(); ++r)
    ranks_[r].expect_result(std::max(finish_s[r], all_s));
}

}  // namespace patallreduce::monitor
