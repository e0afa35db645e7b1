#include "prediction/predictor.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

#include "prediction/times.h"

namespace patallreduce::prediction {

namespace {

constexpr double nan_s = std::numeric_limits<double>::quiet_NaN();
constexpr double newest_square_share = 0.3;
// Expected error before any has been seen, as share of the time from the start.
constexpr double unproven_share = 0.1;

}  // namespace

Predictor::Predictor(std::shared_ptr<Job> job) : job_(std::move(job)) { squares_.fill(-1); }

void Predictor::start(double at_s) {
  if (!is_time(at_s)) return;
  job_->begin(&member_);
  take_errors();
  arrival_.end(at_s);
  result_.end(at_s);
  start_s_ = at_s;
  started_ = true;
  assumed_ = false;
  edges_.forget();
  arrived_s_.assign(arrived_s_.size(), nan_s);
}

void Predictor::edge(double fraction, double at_s) {
  if (!(fraction > 0 && fraction < 1) || !is_time(at_s)) return;
  if (!started_) {
    // The start was lost. What is guessed may serve this iteration, but is not learned from.
    const History& usual_s = edges_.usual_offset_s(slot_of(fraction));
    double start_s = 0;
    if (usual_s.count() > 0) {
      start_s = at_s - usual_s.exponential();
    } else if (!known_start(&start_s)) {
      return;
    }
    start(start_s);
    assumed_ = true;
  }
  if (is_duration(at_s - start_s_)) edges_.add(fraction, at_s - start_s_);
}

void Predictor::result(double at_s) {
  if (!started_) result_.begin(at_s);
}

void Predictor::arrive(std::size_t bucket, double at_s) {
  if (!is_time(at_s) || bucket >= arrived_s_.size()) return;
  if (std::isnan(arrived_s_[bucket])) arrived_s_[bucket] = at_s;
}

bool Predictor::usable(const std::vector<double>& arrivals_s, double* last_s) const {
  bool any = false;
  for (const double arrival_s : arrivals_s) {
    if (!is_time(arrival_s) || (started_ && !is_duration(arrival_s - start_s_))) continue;
    *last_s = any ? std::max(*last_s, arrival_s) : arrival_s;
    any = true;
  }
  return any;
}

void Predictor::finish(const std::vector<double>& arrivals_s) {
  if (arrivals_s.size() != shifts_.size()) {
    shifts_.assign(arrivals_s.size(), History());
    last_ = History();
    edges_.restart();
  }
  double last_s = 0;
  if (usable(arrivals_s, &last_s)) {
    if (started_ && !assumed_) learn(arrivals_s, last_s - start_s_);
    arrival_.begin(last_s);
  }
  started_ = false;
  edges_.forget();
  arrived_s_.assign(arrivals_s.size(), nan_s);
}

void Predictor::take_errors() {
  for (int depth = 0; depth < depths; ++depth) {
    const double square = job_->square(member_, depth);
    if (square < 0) continue;
    double& recent = squares_[depth];
    recent = recent < 0 ? square : recent + newest_square_share * (square - recent);
  }
  member_.said = 0;
}

void Predictor::learn(const std::vector<double>& arrivals_s, double last_s) {
  grade(nullptr, last_s);
  for (int slot = 0; slot < Edges::slots; ++slot) {
    if (const Edge* edge = edges_.at(slot)) grade(edge, last_s);
  }
  last_.add(last_s);
  for (std::size_t b = 0; b < shifts_.size(); ++b) {
    const double offset_s = arrivals_s[b] - start_s_;
    if (is_time(arrivals_s[b]) && is_duration(offset_s)) shifts_[b].add(offset_s - last_s);
  }
  edges_.learn(last_s);
  job_->settle(&member_, last_.exponential(), edges_);
}

// Replays what was said when `edge` was the newest, as if its own report had just come.
void Predictor::grade(const Edge* edge, double last_s) {
  const int depth = edge ? edge->slot + 1 : 0;
  const Components said_s = offsets_s(edge);
  job_->report(&member_, depth, said_s, job_->best(depth, said_s), last_s);
  SharedFit::Sample sample;
  if (job_->sample(last_, edges_, edge, &sample)) job_->fit(depth, sample, last_s);
}

bool Predictor::known_start(double* start_s) const {
  if (started_) {
    *start_s = start_s_;
  } else if (pause().known()) {
    *start_s = pause().start_s();
  } else {
    return false;
  }
  return true;
}

Components Predictor::offsets_s(const Edge* edge) const {
  Components said_s;
  if (last_.count() > 0) {
    said_s[Component::last] = last_.last();
    said_s[Component::average] = last_.average();
    said_s[Component::exponential] = last_.exponential();
    said_s[Component::phase] = last_.phase();
  }
  if (edge) {
    const History& rest_s = edges_.usual_rest_s(edge->slot);
    said_s[Component::linear] = linear(*edge);
    if (rest_s.count() > 0) {
      said_s[Component::additive] = additive(*edge, rest_s.phase());
      said_s[Component::proportional] =
          proportional(*edge, edges_.usual_offset_s(edge->slot).phase(), rest_s.phase());
    }
  }
  SharedFit::Sample sample;
  if (job_->sample(last_, edges_, edge, &sample)) {
    said_s[Component::shared] = job_->shared_s(edge ? edge->slot + 1 : 0, sample);
  }
  return said_s;
}

double Predictor::shift_s(std::size_t bucket) const {
  if (bucket >= shifts_.size() || shifts_[bucket].count() == 0) return 0;
  return shifts_[bucket].phase();
}

double Predictor::bounded_s(double offset_s, double shift_s, double start_s, double now_s) const {
  double arrival_s = start_s + std::clamp(offset_s + shift_s, 0.0, 2e6);
  if (is_time(now_s)) {
    const double least_s = start_s + edges_.silence_s(now_s - start_s) + shift_s;
    arrival_s = std::max({arrival_s, least_s, now_s});
  }
  return arrival_s;
}

Components Predictor::components(std::size_t bucket, double now_s) const {
  Components arrivals_s;
  double start_s = 0;
  if (!known_start(&start_s)) return arrivals_s;
  const Components said_s = offsets_s(edges_.newest());
  for (std::size_t c = 0; c < component_count; ++c) {
    if (std::isnan(said_s.value[c])) continue;
    arrivals_s.value[c] = bounded_s(said_s.value[c], shift_s(bucket), start_s, now_s);
  }
  return arrivals_s;
}

Component Predictor::chosen() const {
  const Edge* edge = edges_.newest();
  return job_->best(edge ? edge->slot + 1 : 0, offsets_s(edge));
}

Prediction Predictor::predict(std::size_t bucket, double now_s, double pauses_apart_s) const {
  if (bucket < arrived_s_.size() && !std::isnan(arrived_s_[bucket])) {
    return {arrived_s_[bucket], 0, true};
  }
  const Prediction unknown{is_time(now_s) ? now_s : 0, 0, false};
  double start_s = 0;
  if (!known_start(&start_s)) return unknown;
  const Edge* edge = edges_.newest();
  const int depth = edge ? edge->slot + 1 : 0;
  const Components said_s = offsets_s(edge);
  const Component best = job_->best(depth, said_s);
  if (std::isnan(said_s[best])) return unknown;

  double error_s = unproven_share * std::abs(said_s[best]);
  if (squares_[depth] >= 0) {
    error_s = std::sqrt(squares_[depth]);
  } else if (job_->error_s(depth, best) >= 0) {
    error_s = job_->error_s(depth, best);
  } else if (last_.count() > 1) {
    error_s = last_.deviation();
  }
  const double pause_error_s = std::min(pause().error_s(), pauses_apart_s);
  if (!started_ && std::isfinite(pause_error_s)) error_s = std::hypot(error_s, pause_error_s);
  const double said_at_s = bounded_s(said_s[best], shift_s(bucket), start_s, nan_s);
  const double arrival_s = bounded_s(said_s[best], shift_s(bucket), start_s, now_s);
  return {arrival_s, error_s, true, arrival_s - said_at_s};
}

}  // namespace patallreduce::prediction
