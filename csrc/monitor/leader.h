// Turns the reports of all ranks into one plan per iteration. No thread, no clock, no messages.
//
// A plan is decided when every rank has made the last progress report that it usually makes well
// before its first bucket is ready. When ranks ask, having arrived, the others have a little
// longer: until half of the ranks have asked, or for the time of one transfer of the iteration's
// buckets after the second, or not at all where no prediction is in doubt; and no longer than plans
// promised to win lately, since a ring, too, gets on with what the early ranks have. A rank that
// its last all-reduce let go before the others is also the first to come back, when nobody else has
// reported anything yet: alone it can exchange nothing, and waits some transfers for the second.
// Where somebody usually comes two transfers late or more, all others may ask first: what they
// exchange is done long before. What is missing is filled from history, and silence counts: who
// should have reported by now is late. Who has not started yet starts when the simulated all-reduce
// lets it go.
//
// Ranks that report no progress, such as those of collectives outside a training loop, tell nothing
// before they ask; over a long way a report and its answer may take longer than a rank computes
// before its first bucket. Where they arrive as they did before, or there will be no plan, that of
// an iteration is decided as soon as all have arrived in the one before: it reaches them with their
// results, and nobody waits for it.
//
// Where the loop was measured to be faster without plans (monitor/guard.h), or plans promise next
// to nothing, an empty plan is decided as soon as all ranks have started, so that nobody has to
// wait for it. What next to nothing was is looked at again after 8 iterations, then 16, up to 64,
// and in a new regime of arrivals at once. What plans would have won where there are none is looked
// at in every 16th iteration, once all ranks have arrived.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <utility>
#include <vector>

#include "monitor/guard.h"
#include "monitor/ports.h"
#include "monitor/ranks.h"
#include "monitor/records.h"
#include "monitor/reports.h"
#include "prediction/newest.h"
#include "prediction/smoothed.h"
#include "selection/planner.h"

namespace patallreduce::monitor {

using schedule::ScheduleKey;
using selection::IterationPlan;

constexpr std::size_t most_loops = 256;  // that are known at once

class Leader {
 public:
  struct Chooser {
    // Nothing: it cannot choose yet. `at_once`: what would take long is left to catch_up().
    std::function<std::optional<IterationPlan>(const IterationForecast&, bool at_once)> plan;
    // When each rank has its last result with these keys (none: no plan), whose arrivals are known.
    // Optional; empty: it cannot tell.
    std::function<std::vector<double>(const std::vector<ScheduleKey>&, const IterationForecast&)>
        finish_s;
    // Bytes per second of each rank's port; none: ranks share ports, or it does not go by them.
    std::vector<double> ports;
    // From here on they are so wide.
    std::function<void(const std::vector<double>&)> set_ports;
    double latency_s = 0;  // from one rank to another
    // Optional; a monitor calls it from another thread than the rest, at the same time. False:
    // nothing is left, or, unless it `confirms`, nothing that is not usual.
    std::function<bool(bool confirms)> catch_up;
  };

  explicit Leader(int ranks) : ranks_(ranks), ways_s_(std::size_t(ranks), prediction::Newest(15)) {}

  // Until it is set, plans leave every call its own schedule, and are decided when the first rank
  // asks. `patience_s_per_byte`: how long a rank that asks may wait for half of the others.
  // `guarded`: plans that were measured to be slower than none are given up.
  void set_chooser(Chooser choose, double patience_s_per_byte = 0, bool guarded = true) {
    choose_ = std::move(choose);
    if (!choose_.ports.empty()) ports_.emplace(choose_.ports);
    patience_s_per_byte_ = patience_s_per_byte;
    guarded_ = guarded;
  }

  // Returns the plan that this report made due. `now_s`: finite, of the leader's own clock; what
  // ranks report may be anything.
  std::optional<Plan> take(int rank, const Report& report, double now_s, Records& records);
  // A plan that is due because whoever asked has waited long enough; call until there is none.
  std::optional<Plan> overdue(double now_s, Records& records);
  // Works out what the last plan left for later, if anything: call it when that was sent.
  // `confirms`: also what is most likely known.
  bool catch_up(bool confirms) { return choose_.catch_up && choose_.catch_up(confirms); }
  // When overdue() will have one; infinite: not before another report.
  double next_overdue_s() const;
  // What was measured of a loop with and without plans.
  std::optional<Guard> guard(std::int64_t loop) const;

 private:
  struct Asking {  // for the plan of one iteration
    int ranks = 0;
    double until_s = 0;
  };
  struct Loop {
    static constexpr double promised_share = 0.1;  // weight of the newest plan

    explicit Loop(int number) : ranks(number) {}
    bool is_planned(std::int64_t iteration) const;
    void note_planned(std::int64_t iteration);
    bool promises_enough() const;
    bool looks_for_plan(std::int64_t iteration);
    void note_promise(std::int64_t iteration, const IterationPlan& plan);
    double patience_s() const;

    double heard_s = 0;
    Ranks ranks;
    std::vector<BucketSize> sizes;     // as the leader's own last iteration had them
    std::set<std::int64_t> planned;    // iterations, but those that the leader's rank has left
    std::int64_t newest_planned = -1;  // the last of them that was decided
    std::vector<ScheduleKey> keys;     // of that plan
    std::int64_t arrived = -1;         // iteration that is left to all_arrived()
    double plain_pace_s = 0;           // as forecast: of an iteration without plans
    prediction::Smoothed promised_s{promised_share};  // what a plan is faster than that
    std::int64_t next_look = 0;                       // iteration, where that is next to nothing
    std::int64_t look_every = 0;                      // iterations
    Guards::Regime looked_in;
    std::map<std::int64_t, Asking> asking;  // by iteration: asked for, not decided
    std::int64_t starting = -1;             // newest iteration that a rank has started
    int started = 0;                        // ranks that have
    std::int64_t asked = -1;                // newest iteration for whose plan a rank has asked
    Guards guards;
  };

  Loop& loop_of(std::int64_t number, double now_s);
  void start(Loop& loop, const IterationId& id, const Records& records) const;
  bool goes_without(Loop& loop, std::int64_t iteration) const;
  double transfer_s(const BucketSize& size) const;
  double transfer_s(const Loop& loop) const;
  bool waited_enough(Loop& loop, std::int64_t iteration, double now_s) const;
  Plan decide(Loop& loop, const IterationId& id, double now_s, Records& records);
  void all_arrived(Loop& loop, std::int64_t iteration, double now_s) const;
  bool decides_ahead(Loop& loop, std::int64_t iteration, double now_s) const;
  // What a report and the plan that it brings take on their way, to the rank that is farthest off:
  // between sites more than the link's latency says.
  double answer_s() const;
  void expect_results(Loop& loop, std::int64_t iteration) const;
  Sends sends_of(const Loop& loop) const;
  void learn_ports(int rank, const LinkUsed& report);

  int ranks_;
  Chooser choose_;
  std::optional<Ports> ports_;
  double patience_s_per_byte_ = 0;
  bool guarded_ = true;
  std::vector<prediction::Newest> ways_s_;  // by rank: of its reports
  std::map<std::int64_t, Loop> loops_;
};

}  // namespace patallreduce::monitor
