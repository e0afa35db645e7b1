// Keeps a loop to what was measured to be faster: the leader's plans, or each call's own schedule.
//
// The model that makes plans is wrong somewhere: several ranks behind one port, a busy processor, a
// link that got slower. So what counts is the pace of the job. An iteration's overhead is the time
// from the end before to its own end, less what the rank that arrived last did since its own end
// before (since the end of all, where a barrier made it wait for them). How long anybody computes
// or pauses is not in it: that differs from iteration to iteration. Whom the all-reduce before let
// go late is. But where what moves data takes processors from those who compute, plans may change
// that, too. So where whole iterations with a plan differ clearly from those without, plans have to
// win in both.
//
// Each way is measured by itself, for each regime of arrivals: how many ranks are late again and
// again, and by how much, and how late the last rank usually is, whoever that may be. A loop begins
// with plans, a regime with what the one before was kept to, and tries the other after 3 iterations
// that had one, unless nothing can be gained without plans. What was slower is tried again after 16
// iterations, or 64 if it was slower by more than a tenth of an iteration, then after four times as
// many, and so on. A trial takes 2 iterations, or 1 if that is as clear, and one more at either
// end, which count for neither way, as the first 2 of a loop; up to 8 while its overheads and its
// whole iterations contradict each other; pauses not counted. So of its first 200 iterations in one
// regime at most 16 run the slower way or show its traces (34 where that is hard to tell), and at
// most 10 where it is clearly slower: a way that takes x longer costs at most 5 % of x, or less
// than 1 % of an iteration. Plans are also tried again once they would have won twice of what they
// would have won at the trial before: up to a whole iteration, that is 7 times. Ranks that are now
// in one regime, now in another make trials that are never measured: so none with plans begins
// while those of all regimes have cost more than 1 % of the loop's time.
//
// A trial also disturbs: ranks need some iterations to fall into step again. So the model is heard
// where it has been right: it says when each iteration will end as soon as all have arrived. While
// it is off by less than half of what it promises of plans, with them and without, trials are
// rarer: 32 times if that is half of an iteration or more, in proportion if it is less. What trials
// measure of the overheads then has to outweigh the promise. There the bound above does not hold:
// until a trial shows what plans do to computation, they may cost as much as they promise.
#pragma once

#include <cmath>
#include <cstdint>
#include <map>
#include <optional>
#include <vector>

#include "monitor/records.h"
#include "prediction/newest.h"
#include "prediction/smoothed.h"

namespace patallreduce::monitor {

enum class Way { planned, plain };
constexpr std::size_t most_compared = 15;  // iterations

// Of one regime.
class Guard {
 public:
  struct Pace {
    std::int64_t iterations = 0;
    double iteration_s = 0, overhead_s = 0;  // means; the newest ones count most
  };

  explicit Guard(Way kept) : kept_(kept) {}

  Way kept() const { return kept_; }
  // For the next iteration.
  Way choose(bool may_try = true) const { return trying_ && may_try ? other() : kept_; }
  // promised_s: what the plan was to win; 0: none seemed better than none. plain_least_s: no
  // overhead without plans can be less. error_s: by how much the promise may be too much, to go by
  // how right the model was so far.
  void measured(Way way, double promised_s, double iteration_s, double overhead_s,
                double plain_least_s, double error_s);
  // A plan for the arrivals as they were would have won so much of an iteration without plans.
  void missed(double won_s);
  const Pace& pace(Way way) const { return way == Way::plain ? plain_ : planned_; }

 private:
  Way other() const { return kept_ == Way::plain ? Way::planned : Way::plain; }
  void judge(double believed_s);
  prediction::Newest without_pauses(const prediction::Newest& took_s) const;
  prediction::Newest shorter_by_s() const;
  double shorter_s() const;
  bool clear() const;
  bool tried_enough(double believed_s) const;
  double rarer() const;

  Pace plain_, planned_;
  double promised_s_ = 0;  // by plans, mean
  // Iterations of what is kept, and of this trial; and by how much those with plans are shorter, as
  // the trials before have found.
  prediction::Newest kept_took_s_{most_compared}, trial_took_s_{most_compared};
  prediction::Newest shorter_by_s_{most_compared};
  prediction::Smoothed missed_s_{0.3};
  double tried_for_s_ = 0;  // the largest mean of these with which a trial was begun
  Way kept_;
  bool trying_ = false;     // the other
  double until_trial_ = 3;  // iterations
  double interval_ = 16;    // until the next trial, at least
};

// The guards of one loop.
class Guards {
 public:
  // How many ranks are late again and again, by levels of lateness; the last rank's level.
  using Regime = std::vector<int>;

  // What an iteration shall be. lateness_s: per rank, what it lastingly computes longer than the
  // median rank. last_s: what the last rank, whoever it is, usually computes longer (NaN: unknown).
  // scale_s: what the iteration's messages take to transfer.
  Way choose(std::int64_t iteration, const std::vector<double>& lateness_s, double last_s,
             double scale_s);
  // What its plan is to win; 0: no plan was better than none.
  void promise(std::int64_t iteration, double promised_s);
  // Once all ranks have arrived: when the last one will have its last result, by the model.
  void expect(std::int64_t iteration, double end_s);
  // Once all ranks have arrived: what a plan would have won, had it known when.
  void missed(std::int64_t iteration, double won_s);
  // What was chosen for it last; nothing: it was not the last one.
  std::optional<Way> chosen(std::int64_t iteration) const;
  // An iteration, recorded beside the one before if there was one, is over on all ranks. barrier:
  // between the two all waited for all.
  void over(const IterationRecord* before, const IterationRecord& record, double plain_least_s,
            bool barrier);
  // By how much the last iteration ended after what the model said; NaN: not known.
  double late_s() const { return late_s_; }
  const Regime& regime() const { return regime_; }  // at hand
  // Of the regime at hand; nothing before its first iteration.
  std::optional<Guard> guard() const;

 private:
  struct Decided {
    std::int64_t iteration;
    Way way;
    Regime regime;
    double promised_s = 0;
    double expected_end_s = NAN;
  };

  Regime regime_of(const std::vector<double>& lateness_s, double last_s, double scale_s);
  double error_s() const;
  bool may_try(const Guard& guard) const;

  std::map<Regime, Guard> guards_;
  // Of the last rank's usual lateness, from the least that counts; kept until it is off by one.
  double last_doublings_ = 0;
  Regime regime_;
  std::vector<Decided> decided_;  // not over yet
  std::optional<Decided> last_;   // that is over
  double late_s_ = NAN;
  double took_s_ = 0, trials_cost_s_ = 0;  // all iterations; trials with plans beyond those without
  // By how much iterations end after what the model said.
  prediction::Smoothed planned_late_s_{0.2}, plain_late_s_{0.2};
  int warm_up_ = 0;  // iterations measured, and not counted
};

}  // namespace patallreduce::monitor
