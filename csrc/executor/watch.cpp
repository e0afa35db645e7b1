#include "executor/watch.h"

#include <algorithm>

#include "errors.h"
#include "executor/driver.h"

namespace patallreduce::executor {

namespace {

constexpr double longest_timeout_s = 5;        // that makes the interval longer
constexpr double longest_wait_for_plan_s = 5;  // a plan is due after 2 s: see monitor/leader.cpp
// In intervals: within it all ranks begin to ask, and whoever was heard of is not asked.
constexpr double lately = 0.5;

std::string list(const std::vector<int>& ranks) {
  std::string text = ranks.size() == 1 ? "rank " : "ranks ";
  for (std::size_t i = 0; i < ranks.size(); ++i) text += concat(i ? ", " : "", ranks[i]);
  return text;
}

}  // namespace

void Watch::heard(int peer, double now_s, std::uint64_t called) {
  heard(peer, now_s);
  peers_[peer].called = std::max(peers_[peer].called, called);
}

double Watch::interval_s() const { return std::clamp(shortest_timeout_s_ / 10, 0.01, 0.5); }

void Watch::start_asking_anew() { asked_s_ = first_asked_s_ = 0; }

void Watch::begin(double now_s) {
  // Rests between two looks are no hold-up.
  const double usual_s = std::max(interval_s(), 5 * longest_rest_s);
  if (looked_s_ != 0 && now_s > looked_s_ + usual_s) {
    start_asking_anew();
    judge_after_s_ = now_s + 3 * interval_s();
  }
  looked_s_ = now_s;
  shortest_timeout_s_ = longest_timeout_s;
  waits_long_ = false;
}

void Watch::see(const Waiting& waiting) {
  shortest_timeout_s_ = std::min(shortest_timeout_s_, waiting.timeout_s);
  const double turn = 1 + lately * rank_ / static_cast<double>(peers_.size());
  waits_long_ = waits_long_ || looked_s_ > waiting.arrival_s + turn * interval_s();
  if (looked_s_ >= std::max(waiting.arrival_s + waiting.timeout_s, judge_after_s_))
    time_out(waiting);
  miss(waiting);
}

// A rank that was killed after its goodbye, before all that it had sent was here. Of one that left
// in order everything is here, though not taken before there is room for it, nor in the turn that
// asks for it.
void Watch::miss(const Waiting& waiting) {
  if (ended_.empty() || !waiting.operation) return;
  const auto [step, from] = waiting.operation->receiving();
  if (ended_.count(from) == 0) return;
  const double since_s = missed_since_s_.try_emplace({waiting.seq, step}, looked_s_).first->second;
  if (looked_s_ < std::max(since_s + 3 * interval_s(), judge_after_s_)) return;
  throw PeerLostError(
      concat("rank ", from, " ended before rank ", rank_, " had all that it sent of collective ",
             waiting.seq, " (", describe(waiting.call), ")"),
      from);
}

std::vector<int> Watch::end() {
  next_look_s_ = looked_s_ + std::min(interval_s() / 4, longest_rest_s);
  if (!waits_long_) start_asking_anew();
  if (!waits_long_ || (asked_s_ != 0 && looked_s_ < asked_s_ + interval_s())) return {};
  asked_s_ = looked_s_;
  if (first_asked_s_ == 0) first_asked_s_ = looked_s_;
  return unheard_for(lately);
}

bool Watch::waits_too_long_for_plan(const Waiting& waiting) const {
  const double longest_s = std::min(longest_wait_for_plan_s, waiting.timeout_s / 2);
  return looked_s_ > waiting.arrival_s + longest_s && looked_s_ >= judge_after_s_;
}

void Watch::time_out(const Waiting& waiting) const {
  const int waits_for = waiting.operation ? waiting.operation->waiting_for() : -1;
  const auto [culprit_rank, text] = culprit(waiting.seq, waits_for);
  throw TransportTimeout(
      concat("collective ", waiting.seq, " (", describe(waiting.call), ") did not finish within ",
             waiting.timeout_s, " s on rank ", rank_, ": ", text,
             waits_for >= 0 ? concat("; it waited for rank ", waits_for) : "",
             waiting.for_plan ? "; it waited for its plan" : ""),
      culprit_rank < 0 ? waits_for : culprit_rank);
}

std::vector<int> Watch::silent() const {
  if (first_asked_s_ == 0 || looked_s_ <= first_asked_s_ + 2 * interval_s()) return {};
  return unheard_for(2.5);
}

std::vector<int> Watch::unheard_for(double intervals) const {
  std::vector<int> unheard;
  for (int peer = 0; peer < static_cast<int>(peers_.size()); ++peer)
    if (peer != rank_ && peers_[peer].heard_s < looked_s_ - intervals * interval_s())
      unheard.push_back(peer);
  return unheard;
}

std::pair<int, std::string> Watch::culprit(std::uint64_t seq, int waits_for) const {
  const std::vector<int> silent = this->silent();
  std::vector<int> absent;
  for (int peer = 0; peer < static_cast<int>(peers_.size()); ++peer)
    if (peer != rank_ && peers_[peer].called <= seq) absent.push_back(peer);
  if (!silent.empty()) {
    const bool waits_for_one = std::count(silent.begin(), silent.end(), waits_for) > 0;
    return {waits_for_one ? waits_for : silent[0],
            list(silent) + " did not answer (stopped, or cut off the network)"};
  }
  if (!absent.empty()) return {absent[0], list(absent) + " had not called it"};
  return {-1, "all ranks had called it and answered"};
}

}  // namespace patallreduce::executor
