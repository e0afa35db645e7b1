#include "scenario.h"

#include <algorithm>
#include <cmath>
#include <memory>
#include <optional>
#include <sstream>
#include <vector>

#include "algorithms/internal_keys.h"
#include "algorithms/registry.h"
#include "algorithms/resolve.h"
#include "errors.h"
#include "executor/engine.h"
#include "world.h"

namespace patallreduce::interleavings {

namespace {

using executor::Call;
using executor::Engine;
using executor::EngineOptions;
using executor::Failure;
using executor::Kind;
using executor::Ticket;
using schedule::Plan;
using schedule::ScheduleKey;

// Of a collective. Where nothing goes wrong ranks may still be slow, and none of it is an error.
constexpr double usual_timeout_s = 4, longest_timeout_s = 40;
constexpr double start_s = 4;  // of meeting
constexpr double close_s = 1;
constexpr double longest_stop_s = 12;

enum class Fault { none, kill, stop, cut, mismatch, abort, leave, memory };
const char* const fault_names[] = {"none",     "kill",  "stop",  "cut",
                                   "mismatch", "abort", "leave", "memory"};

struct Scenario {
  int ranks;
  std::vector<Call> calls;
  bool waits_at_once;      // after each call, or for all at the end
  bool planned;            // schedules come with plans, of which some do not come
  double longest_pause_s;  // before a call
  bool rooted = false;     // reduces, of which all but the root may leave before the last has come
  Fault fault;
  int victim;
  int other;     // of a cut
  bool noticed;  // a cut
  int at_call;   // mismatch, abort, leave
  int at_look;   // kill, stop, cut
  double stop_s;
  int at_allocation, failing_allocations;  // memory

  explicit Scenario(Random& random) {
    ranks = pick(random, 2, 4);
    const std::vector<const char*> names{"ring", "slt", "prr", "slt_dynamic", "recursive_doubling"};
    const bool mixed = pick(random, 0, 1);
    const char* const usual = names[pick(random, 0, 4)];
    const int count = pick(random, 1, 7);
    planned = pick(random, 0, 3) == 0;
    for (int i = 0; i < count; ++i) {
      Call call;
      call.count = static_cast<std::uint64_t>(pick(random, 0, 9) ? pick(random, 1, 200) : 0);
      call.key.algorithm = mixed ? names[pick(random, 0, 4)] : usual;
      call.key.segments = pick(random, 1, std::max(1, std::min(6, int(call.count))));
      if (planned) {
        call.loop = 1;
        call.iteration = i;
        call.label = 0;
      }
      calls.push_back(call);
    }
    waits_at_once = pick(random, 0, 1);
    longest_pause_s = 1e-3 * std::pow(300.0, part(random));
    fault = static_cast<Fault>(pick(random, 0, 6));
    victim = pick(random, 0, ranks - 1);
    other = (victim + pick(random, 1, ranks - 1)) % ranks;
    noticed = pick(random, 0, 1);
    at_call = pick(random, 0, count - 1);
    at_look = static_cast<int>(std::pow(3000.0, part(random)));
    stop_s = longest_stop_s * std::pow(part(random), 3);
    if (fault != Fault::none) return;
    if (pick(random, 0, 1)) {
      rooted = !planned && at_look % 2;
      if (rooted) be_rooted();
      return;
    }
    fault = Fault::memory;
    at_allocation = static_cast<int>(std::pow(1000.0, part(random)));
    failing_allocations = static_cast<int>(std::pow(30.0, part(random)));
  }

  void be_rooted() {
    for (Call& call : calls) {
      call.key.algorithm = "flat_reduce";
      call.key.root = other;
    }
    longest_pause_s = 3;
  }

  // With little only one is under way at a time.
  std::size_t scratch_bytes() const { return rooted ? 1 : 4096; }
  double pause_s(int rank) const { return rooted && rank != victim ? 0.01 : longest_pause_s; }
  double timeout_s() const { return fault == Fault::none ? longest_timeout_s : usual_timeout_s; }
};

float value(int rank, std::uint64_t i) { return static_cast<float>((rank + i) % 5); }

// One rank's calls and how they ended.
struct Rank {
  std::unique_ptr<Engine> engine;
  std::vector<std::vector<float>> values;
  std::vector<std::shared_ptr<Ticket>> tickets;
  std::optional<std::string> start_error;
};

class Run {
 public:
  explicit Run(unsigned long seed)
      : random_(seed), scenario_(random_), world_(random_(), scenario_.ranks) {
    ranks_.resize(static_cast<std::size_t>(scenario_.ranks));
  }

  std::string violation() {
    prepare_fault();
    const double limit_s = start_s + (scenario_.timeout_s() + longest_stop_s + 2) * 4 + close_s +
                           scenario_.longest_pause_s * double(scenario_.calls.size());
    const bool all = world_.run([this](int rank) { body(rank); }, limit_s);
    std::string wrong = all ? check() : hanging();
    // The engine of a dead rank is in the middle of something: nobody may destroy it.
    for (int rank = 0; rank < scenario_.ranks; ++rank)
      if (!world_.returned(rank)) (void)ranks_[rank].engine.release();
    return wrong;
  }

 private:
  void prepare_fault() {
    const int victim = scenario_.victim;
    if (scenario_.fault == Fault::kill)
      world_.after(scenario_.at_look, [this, victim] { world_.kill(victim); });
    if (scenario_.fault == Fault::stop)
      world_.after(scenario_.at_look, [this, victim] { world_.stop(victim, scenario_.stop_s); });
    if (scenario_.fault == Fault::cut)
      world_.after(scenario_.at_look,
                   [this, victim] { world_.cut(victim, scenario_.other, scenario_.noticed); });
    if (scenario_.fault == Fault::memory)
      world_.exhaust(victim, scenario_.at_allocation, scenario_.failing_allocations);
    if (!scenario_.planned) return;
    // As monitors give them: the leader's in order, the others' some time later; none at some time.
    int first = 0;
    for (std::size_t i = 0; i < scenario_.calls.size() && pick(random_, 0, 6) > 0; ++i) {
      auto plan = std::make_shared<Plan>();
      plan->loop = 1;
      plan->iteration = static_cast<std::int64_t>(i);
      ScheduleKey key = scenario_.calls[i].key;
      key.algorithm = pick(random_, 0, 1) ? "slt" : "slt_dynamic";
      plan->buckets.push_back({scenario_.calls[i].count, 4, key});
      first += static_cast<int>(std::pow(2000.0, part(random_)));
      for (int rank = 0; rank < scenario_.ranks; ++rank)
        world_.after(first + (rank == 0 ? 0 : pick(random_, 1, 500)), [this, rank, plan] {
          const bool kept = ranks_[rank].engine && !plans_end_ && ranks_[rank].engine->plan(plan);
          if (rank == 0 && !kept) plans_end_ = true;
        });
    }
  }

  void body(int rank) {
    try {
      program(rank);
    } catch (const std::bad_alloc&) {
      end(rank);
    }
  }

  // Of a rank whose program was left by an error.
  void end(int rank) {
    try {
      if (ranks_[rank].engine) {
        ranks_[rank].engine->abort("out of memory");
        return ranks_[rank].engine->close(close_s);
      }
    } catch (const std::bad_alloc&) {
    }
    world_.die();
  }

  void program(int rank) {
    Rank& own = ranks_[rank];
    Random& random = world_.random();
    own.engine = std::make_unique<Engine>(
        world_.transport(rank),
        EngineOptions{0,
                      true,
                      scenario_.scratch_bytes(),
                      {algorithms::steps_of, algorithms::is_dynamic, algorithms::collective_of},
                      algorithms::barrier_key(),
                      false});
    try {
      own.engine->start(start_s);
    } catch (const TransportError& error) {
      own.start_error = error.what();
    }
    const bool victim = rank == scenario_.victim;
    for (std::size_t i = 0; i < scenario_.calls.size() && !own.start_error; ++i) {
      const bool here = victim && static_cast<int>(i) == scenario_.at_call;
      own.engine->wait(Ticket(), scenario_.pause_s(rank) * part(random));  // its thread drives
      if (here && scenario_.fault == Fault::leave) break;
      if (here && scenario_.fault == Fault::abort) own.engine->abort("by the test");
      Call call = scenario_.calls[i];
      if (here && scenario_.fault == Fault::mismatch) {
        ++call.count;
        if (part(random) < 0.5) call.key.algorithm = "slt_dynamic";
      }
      own.values.emplace_back(call.count + 1);
      for (std::uint64_t at = 0; at < call.count; ++at) own.values.back()[at] = value(rank, at);
      own.tickets.push_back(
          own.engine->submit(own.values.back().data(), call, scenario_.timeout_s()));
      if (scenario_.waits_at_once) wait(rank, i);
    }
    for (std::size_t i = 0; i < own.tickets.size(); ++i) wait(rank, i);
    own.engine->close(close_s);
  }

  void wait(int rank, std::size_t i) {
    while (!ranks_[rank].engine->wait(*ranks_[rank].tickets[i], 0.1)) {
    }
  }

  std::string hanging() const {
    std::ostringstream text;
    text << "hangs:";
    for (int rank = 0; rank < scenario_.ranks; ++rank) {
      if (world_.dead(rank) || world_.returned(rank)) continue;
      const Rank& one = ranks_[rank];
      text << " rank " << rank << " after " << one.tickets.size() << " calls";
      for (std::size_t i = 0; i < one.tickets.size(); ++i)
        if (!one.tickets[i]->done) text << ", waits for " << i;
      text << ";";
    }
    return text.str();
  }

  // Sums are right; errors are one, and only where something went wrong; `completed` is true.
  std::string check() const {
    std::optional<Failure> first;
    int first_rank = -1;
    for (int rank = 0; rank < scenario_.ranks; ++rank) {
      if (world_.dead(rank)) continue;
      const Rank& one = ranks_[rank];
      for (std::size_t i = 0; i < one.tickets.size(); ++i) {
        const Ticket& ticket = *one.tickets[i];
        if (!ticket.done) return concat("rank ", rank, ": call ", i, " returned without an end");
        if (ticket.failure) {
          if (scenario_.fault == Fault::none)
            return concat("rank ", rank, ": nothing went wrong, but: ", ticket.failure->what);
          if (ticket.failure->completed > i)
            return concat("rank ", rank, ": call ", i, " failed, though ",
                          ticket.failure->completed, " are said to be completed");
        } else if (!is_right(rank, i)) {
          return concat("rank ", rank, ": the sum of call ", i, " is wrong");
        }
      }
      if (one.start_error && scenario_.fault == Fault::none)
        return concat("rank ", rank, ": nothing went wrong, but: ", *one.start_error);
      const auto failure = one.engine->failure();
      if (!failure || failure->what == "the communicator is closed") {
        if (must_fail(rank)) return concat("rank ", rank, " noticed nothing");
        continue;
      }
      if (!is_expected(*failure)) return concat("rank ", rank, ": unexpected: ", failure->what);
      if (!first) {
        first = *failure;
        first_rank = rank;
      }
      // A rank that was stopped may have less than the others, which went on without it.
      const bool was_stopped = scenario_.fault == Fault::stop && rank == scenario_.victim;
      const bool alike = failure->completed == first->completed || was_stopped ||
                         (scenario_.fault == Fault::stop && first_rank == scenario_.victim);
      if (failure->what != first->what || !alike) {
        if (may_differ()) continue;
        return concat("rank ", first_rank, ": \"", first->what, "\", ", first->completed,
                      " completed; rank ", rank, ": \"", failure->what, "\", ", failure->completed,
                      " completed");
      }
    }
    return "";
  }

  // Whether the others, or all, cannot get what they called.
  bool must_fail(int rank) const {
    if (scenario_.fault == Fault::leave) return rank != scenario_.victim;
    return scenario_.fault == Fault::mismatch || scenario_.fault == Fault::abort;
  }

  // The class and the rank that docs/reliability.md says.
  bool is_expected(const Failure& failure) const {
    const bool victim = failure.rank == scenario_.victim;
    switch (scenario_.fault) {
      case Fault::kill:
      case Fault::leave:
        return failure.kind == Kind::lost && victim;
      case Fault::mismatch:
        return failure.kind == Kind::mismatch;
      case Fault::abort:
        return failure.kind == Kind::transport && victim;
      case Fault::memory:  // an error, or the process's end
        return (failure.kind == Kind::transport || failure.kind == Kind::lost) && victim;
      case Fault::stop:
        return failure.kind == Kind::timeout;
      case Fault::cut:
        return true;
      case Fault::none:
        break;
    }
    return false;
  }

  // Ranks between which nothing passes cannot agree.
  bool may_differ() const { return scenario_.fault == Fault::cut; }

  bool is_right(int rank, std::size_t i) const {
    if (scenario_.rooted && rank != scenario_.other) return true;
    const Rank& one = ranks_[rank];
    const std::uint64_t count = scenario_.calls[i].count;
    for (std::uint64_t at = 0; at < count; ++at) {
      float right = 0;
      for (int other = 0; other < scenario_.ranks; ++other) right += value(other, at);
      if (one.values[i][at] != right) return false;
    }
    return true;
  }

  Random random_;
  Scenario scenario_;
  World world_;
  std::vector<Rank> ranks_;
  bool plans_end_ = false;  // the leader's engine has refused one
};

}  // namespace

std::string violation(unsigned long seed) { return Run(seed).violation(); }

std::string description(unsigned long seed) {
  Random random(seed);
  const Scenario s(random);
  std::ostringstream text;
  text << s.ranks << " ranks, " << s.calls.size() << " calls" << (s.planned ? " with plans" : "")
       << (s.waits_at_once ? ", each waited for" : "") << ", fault "
       << fault_names[static_cast<int>(s.fault)];
  if (s.fault != Fault::none) text << " of rank " << s.victim;
  if (s.fault == Fault::cut) text << " and rank " << s.other << (s.noticed ? "" : ", unnoticed");
  if (s.fault == Fault::kill || s.fault == Fault::stop || s.fault == Fault::cut)
    text << " at look " << s.at_look;
  else if (s.fault == Fault::memory)
    text << " at allocation " << s.at_allocation << ", " << s.failing_allocations << " of them";
  else if (s.fault != Fault::none)
    text << " at call " << s.at_call;
  if (s.fault == Fault::stop) text << " for " << s.stop_s << " s";
  for (const Call& call : s.calls) text << "\n  " << describe(call);
  return text.str();
}

}  // namespace patallreduce::interleavings
