#include "monitor/guard.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "prediction/times.h"

namespace patallreduce::monitor {

using prediction::is_duration;
using prediction::is_time;
using prediction::Newest;

namespace {

constexpr int trial_iterations = 2, most_trial_iterations = 8;
constexpr double first_interval = 16, interval_growth = 4, most_interval = 4096;
constexpr double after_clear_trial = 64;
// Where the model was right so far, and says that plans win, trials are so many times rarer if that
// is half of an iteration or more; in proportion, if it is less, so that they cost as little.
constexpr double belief = 32, believed_share = 0.5;
constexpr double newest_weight = 0.2;
// Plans have to be faster by so much of an iteration.
constexpr double margin = 0.005;
// What is clear by so much of an iteration needs no second look: a trial that loses ends at once.
constexpr double clear_share = 0.1;
// Of a loop's time.
constexpr double most_trials_cost = 0.01;
// Iterations differ clearly by more than this many standard deviations of one, as far as several
// tell. Of what is late at random, most iterations are alike and some far off.
constexpr double deviations = 1.5;
// The first iterations open connections and fill caches: this one, and the very first, which cannot
// be measured.
constexpr int warm_up_iterations = 1;
constexpr std::size_t most_regimes = 64, most_decided = 64;
// Of the transfer time of an iteration's messages.
constexpr double least_lateness = 0.25, long_lateness = 1;
constexpr double most_doublings = 5;  // of the least lateness

double last_of(const IterationRecord& record, std::vector<double> BucketRecord::* times,
               std::size_t rank) {
  double last_s = -HUGE_VAL;
  for (const BucketRecord& bucket : record.buckets) {
    const double at_s = (bucket.*times)[rank];
    if (!is_time(at_s)) return NAN;
    last_s = std::max(last_s, at_s);
  }
  return last_s;
}

// When the last rank had its last result; NaN: not known.
double end_of(const IterationRecord& record) {
  double end_s = -HUGE_VAL;
  for (std::size_t rank = 0; rank < record.start_s.size(); ++rank) {
    const double rank_s = last_of(record, &BucketRecord::finish_s, rank);
    if (std::isnan(rank_s)) return rank_s;
    end_s = std::max(end_s, rank_s);
  }
  return end_s;
}

// What the rank that arrived last did from its last result of the iteration before, or from that of
// all where a barrier made it wait for them, to its last arrival; NaN: not known.
double last_rank_computed_s(const IterationRecord& before, const IterationRecord& record,
                            bool barrier) {
  double last_s = -HUGE_VAL;
  std::size_t last_rank = 0;
  for (std::size_t rank = 0; rank < record.start_s.size(); ++rank) {
    const double arrival_s = last_of(record, &BucketRecord::arrival_s, rank);
    if (std::isnan(arrival_s)) return arrival_s;
    if (arrival_s <= last_s) continue;
    last_s = arrival_s;
    last_rank = rank;
  }
  return last_s - (barrier ? end_of(before) : last_of(before, &BucketRecord::finish_s, last_rank));
}

}  // namespace

void Guard::measured(Way way, double promised_s, double iteration_s, double overhead_s,
                     double plain_least_s, double error_s) {
  Pace& pace = way == Way::plain ? plain_ : planned_;
  const double weight = std::max(1.0 / static_cast<double>(++pace.iterations), newest_weight);
  const bool first = pace.iterations == 1;
  const double likely_s = first ? iteration_s : std::min(iteration_s, 2 * pace.iteration_s);
  pace.iteration_s += weight * (likely_s - pace.iteration_s);
  pace.overhead_s += weight * (overhead_s - pace.overhead_s);
  if (way == Way::planned) promised_s_ += weight * (promised_s - promised_s_);
  if (way == kept_) kept_took_s_.add(iteration_s);
  if (way != choose()) return;
  const bool credible = 2 * error_s < promised_s_;
  if (trying_) {
    trial_took_s_.add(iteration_s);
    const double believed_s = credible ? promised_s_ : 0;
    if (tried_enough(believed_s)) judge(believed_s);
  } else if (kept_ == Way::planned && (promised_s == 0 || planned_.overhead_s < plain_least_s)) {
    return;
  } else if ((until_trial_ -= credible ? 1 / rarer() : 1) <= 0) {
    trying_ = true;
  }
}

double Guard::rarer() const {
  const double share = promised_s_ / pace(kept_).iteration_s;
  return std::clamp(belief * share / believed_share, 1.0, belief);
}

void Guard::missed(double won_s) {
  missed_s_.add(won_s);
  if (missed_s_.count() == 1) tried_for_s_ = std::max(missed_s_.mean(), promised_s_);
  if (trying_ || missed_s_.mean() <= 2 * tried_for_s_ + margin * plain_.iteration_s) return;
  tried_for_s_ = missed_s_.mean();
  until_trial_ = 0;
  interval_ = first_interval;
}

// What takes twice as long as usual has a pause in it. Usual are the shorter ones of a way: pauses
// may come after every other iteration, and after the first ones.
Newest Guard::without_pauses(const Newest& took_s) const {
  return took_s.below(2 * std::fmax(kept_took_s_.quarter(), trial_took_s_.quarter()));
}

// Than those right before the trial: how long ranks compute may change at any time.
Newest Guard::shorter_by_s() const {
  Newest found = shorter_by_s_;
  const Newest kept_s = without_pauses(kept_took_s_);
  if (kept_s.count() < trial_iterations) return found;
  for (const double tried_s : without_pauses(trial_took_s_)) {
    const double longer_s = tried_s - kept_s.mean();
    found.add(kept_ == Way::planned ? longer_s : -longer_s);
  }
  return found;
}

// By how much iterations with plans are shorter than those without; 0 before there are enough.
double Guard::shorter_s() const {
  const Newest found = shorter_by_s();
  return found.count() < trial_iterations ? 0 : found.mean();
}

// Whether that is no chance. What varies is how long ranks compute, with plans and without: so both
// tell together how much. Few values need more deviations, as Student's t has it.
bool Guard::clear() const {
  double squares = 0, degrees = 0, shares = 0;
  for (const Newest& values : {without_pauses(kept_took_s_), shorter_by_s()}) {
    const auto count = static_cast<double>(values.count());
    if (count < trial_iterations) return false;
    squares += (count - 1) * values.variance();
    degrees += count - 1;
    shares += 1 / count;
  }
  const double off_s = std::sqrt(squares / degrees * shares);
  return std::abs(shorter_s()) > deviations * (1 + 1 / degrees) * off_s;
}

// A trial's end: at once if it loses clearly, later if its overheads and its iterations contradict
// each other.
bool Guard::tried_enough(double believed_s) const {
  const Pace &tried = pace(other()), &kept = pace(kept_);
  if (tried.overhead_s > kept.overhead_s + clear_share * kept.iteration_s) return true;
  const double won_s = plain_.overhead_s - planned_.overhead_s + believed_s;
  const bool contradictory = won_s * shorter_s() < 0 && !clear();
  const auto tried_iterations = static_cast<int>(without_pauses(trial_took_s_).count());
  return tried_iterations >= (contradictory ? most_trial_iterations : trial_iterations);
}

void Guard::judge(double believed_s) {
  trying_ = false;
  double won_s = plain_.overhead_s - planned_.overhead_s + believed_s;
  if (clear()) won_s = std::min(won_s, shorter_s());
  const double won = won_s / plain_.iteration_s;
  const Way faster = won > margin ? Way::planned : Way::plain;
  shorter_by_s_ = shorter_by_s();
  if (faster != kept_) {
    kept_ = faster;
    kept_took_s_ = trial_took_s_;
    interval_ = first_interval;
  }
  trial_took_s_ = Newest(most_compared);
  until_trial_ = std::abs(won) > clear_share ? std::max(interval_, after_clear_trial) : interval_;
  interval_ = std::min(until_trial_ * interval_growth, most_interval);
}

double Guards::error_s() const {
  const auto wrong_s = [](const prediction::Smoothed& late_s) {
    return late_s.count() == 0 ? HUGE_VAL : std::abs(late_s.mean()) + late_s.off() / 2;
  };
  return wrong_s(planned_late_s_) + wrong_s(plain_late_s_);
}

Guards::Regime Guards::regime_of(const std::vector<double>& lateness_s, double last_s,
                                 double scale_s) {
  const auto late = [&](double by_s) {
    return std::count_if(lateness_s.begin(), lateness_s.end(),
                         [&](double rank_s) { return rank_s >= by_s; });
  };
  // Many late ranks are counted in powers of two.
  const auto level = [](std::ptrdiff_t ranks) {
    return ranks < 3 ? static_cast<int>(ranks) : 2 + std::ilogb(static_cast<double>(ranks));
  };
  if (scale_s > 0 && !std::isnan(last_s)) {
    for (const double rank_s : lateness_s) last_s = std::max(last_s, rank_s);
    const double doublings =
        std::clamp(std::log2(last_s / (least_lateness * scale_s)), 0.0, most_doublings);
    if (std::abs(doublings - last_doublings_) > 1) last_doublings_ = std::round(doublings);
  }
  return {level(late(least_lateness * scale_s)), level(late(long_lateness * scale_s)),
          static_cast<int>(last_doublings_)};
}

Way Guards::choose(std::int64_t iteration, const std::vector<double>& lateness_s, double last_s,
                   double scale_s) {
  const auto before = guards_.find(regime_);
  const Way kept = before == guards_.end() ? Way::planned : before->second.kept();
  regime_ = regime_of(lateness_s, last_s, scale_s);
  if (guards_.size() >= most_regimes && !guards_.count(regime_)) guards_.clear();
  const Guard& guard = guards_.try_emplace(regime_, kept).first->second;
  const Way way = guard.choose(may_try(guard));
  if (decided_.size() == most_decided) decided_.erase(decided_.begin());
  decided_.push_back({iteration, way, regime_});
  return way;
}

// Without plans at any time; with plans where that has not cost much yet, or has begun.
bool Guards::may_try(const Guard& guard) const {
  if (guard.kept() == Way::planned || trials_cost_s_ <= most_trials_cost * took_s_) return true;
  const Decided* const newest = !decided_.empty() ? &decided_.back() : last_ ? &*last_ : nullptr;
  return newest && newest->regime == regime_ && newest->way == Way::planned;
}

void Guards::promise(std::int64_t iteration, double promised_s) {
  if (chosen(iteration)) decided_.back().promised_s = promised_s;
}

void Guards::expect(std::int64_t iteration, double end_s) {
  if (chosen(iteration)) decided_.back().expected_end_s = end_s;
}

void Guards::missed(std::int64_t iteration, double won_s) {
  const auto found = guards_.find(regime_);
  if (chosen(iteration) == Way::plain && found != guards_.end()) found->second.missed(won_s);
}

std::optional<Way> Guards::chosen(std::int64_t iteration) const {
  if (decided_.empty() || decided_.back().iteration != iteration) return std::nullopt;
  return decided_.back().way;
}

void Guards::over(const IterationRecord* before, const IterationRecord& record,
                  double plain_least_s, bool barrier) {
  const std::int64_t iteration = record.id.iteration;
  const auto found = std::find_if(decided_.begin(), decided_.end(),
                                  [&](const Decided& one) { return one.iteration == iteration; });
  if (found == decided_.end()) return;
  const std::optional<Decided> last = std::exchange(last_, std::move(*found));
  decided_.erase(decided_.begin(), found + 1);
  const bool planned = last_->way == Way::planned && last_->promised_s > 0;
  late_s_ = end_of(record) - last_->expected_end_s;
  if (std::abs(late_s_) <= prediction::longest_s)
    (planned ? planned_late_s_ : plain_late_s_).add(late_s_);
  if (!last || !before || last->iteration + 1 != iteration) return;
  const double iteration_s = end_of(record) - end_of(*before);
  const double overhead_s = iteration_s - last_rank_computed_s(*before, record, barrier);
  if (!is_duration(iteration_s) || std::isnan(overhead_s)) return;
  if (warm_up_ < warm_up_iterations) {
    ++warm_up_;
    return;
  }
  const auto found_guard = guards_.find(last_->regime);
  if (found_guard == guards_.end()) return;
  Guard& guard = found_guard->second;
  const Guard::Pace& plain = guard.pace(Way::plain);
  took_s_ += iteration_s;
  if (last_->way == Way::planned && guard.kept() == Way::plain && plain.iterations > 0)
    trials_cost_s_ = std::max(trials_cost_s_ + overhead_s - plain.overhead_s, 0.0);
  // The first one after a change shows what was before, too. Regimes are noticed later than that.
  if (last->way != last_->way) return;
  guard.measured(last_->way, last_->promised_s, iteration_s, overhead_s, plain_least_s, error_s());
}

std::optional<Guard> Guards::guard() const {
  const auto found = guards_.find(regime_);
  if (found == guards_.end()) return std::nullopt;
  return found->second;
}

}  // namespace patallreduce::monitor
