#include "monitor/leader.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "overloaded.h"
#include "prediction/times.h"

namespace patallreduce::monitor {

using prediction::is_duration;

namespace {

// Iterations that a rank can be ahead of the leader's own: an engine has no more calls in flight.
// Who says more lies.
constexpr std::int64_t most_ahead = 1024;
constexpr double alone_transfers = 4;     // of an iteration's messages
constexpr double longest_patience_s = 2;  // after five the engine takes this monitor for dead
// Where plans promise less of an iteration, on the mean, they are looked for in few: all ranks wait
// while one is planned.
constexpr double least_promise = 0.005;
constexpr std::int64_t seldom = 8, very_seldom = 64;
// Of the transfer time of an iteration's messages: forecasts that differ by less are planned alike.
constexpr double quantum = 1.0 / 64;
constexpr std::int64_t missed_every = 16;  // iterations

std::vector<selection::Bucket> buckets(const std::vector<BucketSize>& sizes) {
  std::vector<selection::Bucket> buckets;
  for (const BucketSize& size : sizes)
    buckets.push_back({size.elements * size.element_bytes, size.elements});
  return buckets;
}

}  // namespace

std::optional<Plan> Leader::take(int from, const Report& report, double now_s, Records& records) {
  const IterationId id = id_of(report);
  // A loop that the leader's own rank has not begun waits for that rank in any case.
  if (from != 0 && !loops_.count(id.loop)) return std::nullopt;
  Loop& loop = loop_of(id.loop, now_s);
  Rank& rank = loop.ranks[from];
  if (id.iteration > loop.ranks[0].iteration() + most_ahead) return std::nullopt;
  if (id.iteration < rank.iteration()) {  // out of its time; but who asks waits for an answer
    const bool asks = std::holds_alternative<Asked>(report);
    if (!asks || loop.is_planned(id.iteration)) return std::nullopt;
    return decide(loop, id, now_s, records);
  }
  if (loop.arrived >= 0 && id.iteration > loop.arrived)
    all_arrived(loop, std::exchange(loop.arrived, -1), now_s);
  rank.enter(id.iteration);
  std::visit([&](const auto& r) { records.take(from, r); }, report);
  bool ahead = false;
  const Overloaded asks{
      [&](const Started& r) {
        if (rank.start(r)) start(loop, id, records);
        if (is_duration(now_s - r.at_s)) ways_s_[std::size_t(from)].add(now_s - r.at_s);
        return false;
      },
      [&](const EdgeReached& r) {
        rank.edge(r);
        return false;
      },
      [&](const Asked& r) {
        rank.ask(r);
        loop.asked = std::max(loop.asked, id.iteration);
        return true;
      },
      [](const HostUsed&) { return false; },
      [&](const LinkUsed& r) {
        learn_ports(from, r);
        return false;
      },
      [&](const Arrived& r) {
        rank.finish(r, answer_s());
        if (from == 0) loop.sizes = r.sizes;
        if (!loop.ranks.learn(id.iteration, transfer_s(loop)) ||
            loop.newest_planned != id.iteration)
          return false;
        // Where the next one's progress will be told in time, that will do: ranks compute then, and
        // now they wait for the last result.
        loop.arrived = id.iteration;
        if (loop.ranks.report_progress()) return false;
        all_arrived(loop, std::exchange(loop.arrived, -1), now_s);
        ahead = decides_ahead(loop, id.iteration + 1, now_s);
        return false;
      },
  };
  const bool asked = std::visit(asks, report);
  if (ahead) return decide(loop, {id.loop, id.iteration + 1}, now_s, records);
  if (loop.is_planned(id.iteration)) return std::nullopt;
  const bool known = asked || (loop.starting == id.iteration && loop.started == ranks_);
  const bool decides = (known && goes_without(loop, id.iteration)) ||
                       (asked && waited_enough(loop, id.iteration, now_s));
  if (!decides && loop.ranks.ready(id.iteration) < ranks_) return std::nullopt;
  return decide(loop, id, now_s, records);
}

// Of models that come and go, those are kept that were last heard of.
Leader::Loop& Leader::loop_of(std::int64_t number, double now_s) {
  const auto found = loops_.find(number);
  if (found == loops_.end() && loops_.size() >= most_loops) {
    loops_.erase(std::min_element(loops_.begin(), loops_.end(), [](const auto& a, const auto& b) {
      return a.second.heard_s < b.second.heard_s;
    }));
  }
  Loop& loop = loops_.try_emplace(number, ranks_).first->second;
  loop.heard_s = now_s;
  return loop;
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
  loop.guards.over(before, *over, ring_s / 8, loop.ranks.barrier());
}

bool Leader::goes_without(Loop& loop, std::int64_t iteration) const {
  if (!choose_.plan || !guarded_) return false;
  std::optional<Way> way = loop.guards.chosen(iteration);
  if (!way)
    way = loop.guards.choose(iteration, loop.ranks.lateness_s(), loop.ranks.last_s(),
                             transfer_s(loop));
  return *way == Way::plain || !loop.looks_for_plan(iteration);
}

// The leader's own rank has asked for all that came before its present iteration.
bool Leader::Loop::is_planned(std::int64_t iteration) const {
  if (asking.count(iteration) > 0) return false;
  return iteration < ranks[0].iteration() || planned.count(iteration) > 0;
}

void Leader::Loop::note_planned(std::int64_t iteration) {
  planned.erase(planned.begin(), planned.lower_bound(ranks[0].iteration()));
  planned.insert(iteration);
  newest_planned = iteration;
}

// Before enough plans were looked for, they may be worth anything.
bool Leader::Loop::promises_enough() const {
  return promised_s.count() < seldom || promised_s.mean() >= least_promise * plain_pace_s;
}

bool Leader::Loop::looks_for_plan(std::int64_t iteration) {
  if (looked_in != guards.regime()) {
    looked_in = guards.regime();
    promised_s = prediction::Smoothed(promised_share);
    next_look = iteration;
    look_every = seldom;
  }
  return promises_enough() || iteration >= next_look;
}

// Of an iteration without plans, and of what a plan is faster.
void Leader::Loop::note_promise(std::int64_t iteration, const IterationPlan& plan) {
  plain_pace_s = plan.plain_pace_s;
  promised_s.add(plan.plain_pace_s - plan.pace_s);
  next_look = iteration + look_every;
  look_every = promises_enough() ? seldom : std::clamp(2 * look_every, seldom, very_seldom);
}

// Who asks waits no longer than plans promise to win.
double Leader::Loop::patience_s() const {
  return promised_s.count() < seldom ? std::numeric_limits<double>::infinity() : promised_s.mean();
}

double Leader::transfer_s(const BucketSize& size) const {
  return patience_s_per_byte_ * static_cast<double>(size.elements) * size.element_bytes;
}

double Leader::transfer_s(const Loop& loop) const {
  double seconds = 0;
  for (const BucketSize& size : loop.sizes) seconds += transfer_s(size);
  return seconds;
}

void Leader::all_arrived(Loop& loop, std::int64_t iteration, double now_s) const {
  expect_results(loop, iteration);
  if (iteration % missed_every != 0 || loop.guards.chosen(iteration) != Way::plain) return;
  std::vector<std::vector<double>> predicted_s;
  const auto as_it_was = loop.ranks.forecast(iteration, buckets(loop.sizes), now_s, predicted_s);
  if (as_it_was.buckets.empty()) return;
  if (const auto plan = choose_.plan(as_it_was, true))
    loop.guards.missed(iteration, plan->plain_pace_s - plan->pace_s);
}

double Leader::answer_s() const {
  double way_s = choose_.latency_s;
  for (const prediction::Newest& of_rank_s : ways_s_) way_s = std::fmax(way_s, of_rank_s.quarter());
  return 2 * way_s;
}

// Nothing will be heard in time before somebody asks, and there will be no plan; or an answer then
// takes longer than what is in doubt, or makes no difference.
bool Leader::decides_ahead(Loop& loop, std::int64_t iteration, double now_s) const {
  if (!choose_.plan || loop.is_planned(iteration)) return false;
  if (goes_without(loop, iteration)) return true;
  const double doubt_s = loop.ranks.doubt_s(iteration, loop.sizes.size(), now_s);
  return doubt_s <= std::max(answer_s(), quantum * transfer_s(loop));
}

// Whom the all-reduce lets go last also starts last, long after the first may need a plan.
void Leader::expect_results(Loop& loop, std::int64_t iteration) const {
  const std::size_t planned = loop.keys.size();
  if (!choose_.finish_s || (planned != 0 && planned != loop.sizes.size())) return;
  const std::vector<double> finish_s =
      choose_.finish_s(loop.keys, loop.ranks.arrived(buckets(loop.sizes)));
  if (finish_s.empty()) return;
  loop.ranks.expect_results(finish_s);
  loop.guards.expect(iteration, *std::max_element(finish_s.begin(), finish_s.end()));
}

// By the plan at hand; all buckets alike, or otherwise.
Sends Leader::sends_of(const Loop& loop) const {
  std::set<Sends> found;
  for (std::size_t b = 0; b < loop.sizes.size(); ++b)
    found.insert(selection::sends_of(b < loop.keys.size() ? loop.keys[b].algorithm
                                                          : loop.sizes[b].algorithm));
  return found.size() == 1 ? *found.begin() : Sends::otherwise;
}

// What was measured of plans counts no longer where the network is another.
void Leader::learn_ports(int rank, const LinkUsed& report) {
  if (!ports_ || loops_.size() > 1) return;
  const Loop& only = loops_.begin()->second;
  // Less than a port would do that is narrower by as much as counts, unless nobody waits for it.
  const bool slowed = !(only.guards.late_s() < transfer_s(only) / 8);
  if (!ports_->take(rank, report, slowed)) return;
  choose_.set_ports(ports_->bytes_per_s());
  for (auto& [number, loop] : loops_) {
    loop.guards = Guards();
    loop.looked_in.clear();
  }
}

std::optional<Guard> Leader::guard(std::int64_t loop) const {
  const auto found = loops_.find(loop);
  if (found == loops_.end()) return std::nullopt;
  return found->second.guards.guard();
}

// One more rank asks. The first one has nobody yet to exchange data with: to wait until it is known
// who comes when costs it nothing. Nor does it cost the others much where somebody usually comes so
// late that what they exchange is done long before.
bool Leader::waited_enough(Loop& loop, std::int64_t iteration, double now_s) const {
  Asking& asking = loop.asking[iteration];
  const double transfer_s = this->transfer_s(loop);
  const bool spare = loop.ranks.last_s() >= 2 * transfer_s;
  const double patience_s = spare ? transfer_s : std::min(transfer_s, loop.patience_s());
  if (++asking.ranks == 1) {
    const double doubt_s = loop.ranks.doubt_s(iteration, loop.sizes.size(), now_s);
    const double alone_s = loop.promises_enough() ? alone_transfers * transfer_s : patience_s;
    asking.until_s = now_s + std::min({doubt_s, alone_s, longest_patience_s});
  } else if (asking.ranks == 2) {
    asking.until_s = std::min(asking.until_s, now_s + patience_s);
  }
  const int enough = spare ? ranks_ - 1 : (ranks_ + 1) / 2;
  return asking.ranks >= enough || now_s >= asking.until_s;
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

Plan Leader::decide(Loop& loop, const IterationId& id, double now_s, Records& records) {
  loop.note_planned(id.iteration);
  loop.asking.erase(id.iteration);
  Plan plan{id.loop, id.iteration, {}};
  std::vector<std::vector<double>> predicted_s;
  const bool without = goes_without(loop, id.iteration);  // what is predicted is told all the same
  IterationForecast expected;
  const bool predicts = choose_.plan && !loop.sizes.empty();
  // Calls whose algorithm is fixed ask for none.
  const bool wanted = loop.asked + 2 >= id.iteration;
  if (predicts) {
    expected = loop.ranks.forecast(id.iteration, buckets(loop.sizes), now_s, predicted_s);
    if (expected.buckets.empty()) return plan;  // nothing to go by yet
    if (!loop.keys.empty()) expected.before = loop.keys.front().algorithm;
  }
  const bool plans = predicts && wanted && !without;
  const auto chosen = plans ? choose_.plan(expected, true) : std::nullopt;
  loop.keys = chosen ? chosen->keys : std::vector<ScheduleKey>();
  if (chosen) loop.note_promise(id.iteration, *chosen);
  for (std::size_t b = 0; chosen && b < chosen->keys.size(); ++b) {
    const BucketSize& size = loop.sizes[b];
    plan.buckets.push_back({size.elements, size.element_bytes, chosen->keys[b]});
  }
  if (ports_) {
    ports_->runs(id.iteration, sends_of(loop));
    records.ports(id, ports_->bytes_per_s());
  }
  if (!plan.buckets.empty())
    loop.guards.promise(id.iteration, chosen->plain_pace_s - chosen->pace_s);
  records.decided(id, now_s, loop.ranks.ready(id.iteration), predicted_s);
  return plan;
}

}  // namespace patallreduce::monitor
