// Prices a schedule: when would every rank have its result?
//
// Event-driven. Every rank has one full-duplex port: it sends one message at a time and receives
// one at a time. A message of n bytes occupies both ports for its transfer time and a share of the
// latency, and is there one latency after its transfer. Receives are posted before arrival, into
// private memory, so partial sums can be on a rank before it arrives; what involves the rank's own
// data waits for its arrival. A sum occupies the rank. A rank finishes with its result: what it
// still has to send does not count (early out).
//
//   cost    O(messages log messages); some 100 ns a message
//   source  Hockney, Parallel Computing 20 (1994), 389-398, for the link; single-port full-duplex
//           as in Thakur, Rabenseifner, Gropp, IJHPCA 19 (2005), section 3
#pragma once

#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include "pricing/link.h"
#include "schedule/schedule.h"

namespace patallreduce::pricing {

using schedule::Schedule;
using schedule::Verb;

// When a message occupied its two ports. `send`: the step, numbered as in schedule/messages.h.
struct PortUse {
  std::int32_t send;
  double begin_s, end_s;
};

struct Outcome {
  std::vector<double> finish_s;  // per rank, on the clock of arrivals_s
  std::vector<PortUse> uses;     // in the order of asking for the port, if they were wanted

  double average_elapsed_s(
      const std::vector<double>& arrivals_s) const;  // mean of finish - arrival
  double after_last_arrival_s(const std::vector<double>& arrivals_s) const;
};

// Throws ScheduleError unless there are none, or a finite one for every rank.
void check_arrivals(const std::vector<double>& arrivals_s, int ranks);

// Runs count time from the first arrival, so that no rounding depends on the clock's zero: first
// come, first served turns a tie that is rounded apart into another order.
struct RunClock {
  explicit RunClock(const std::vector<double>& arrivals_s);

  double zero_s;
  std::vector<double> arrivals_s;  // from zero_s on; empty if all are 0
};

// A schedule prepared once, to be run under many arrivals. Not thread-safe.
class Simulation {
 public:
  // Throws ScheduleError for a schedule whose messages do not match, or one that deadlocks:
  // whether it does never depends on the timing.
  explicit Simulation(const Schedule& schedule);

  // arrivals_s: one per rank, finite; empty: all 0. Throws ScheduleError otherwise.
  Outcome run(std::uint64_t message_bytes, const Link& link, const std::vector<double>& arrivals_s,
              bool with_uses = false);

 private:
  friend class SimulatedRun;
  struct Task {  // a step, numbered across ranks: those of rank r come before those of r + 1
    std::int32_t rank;
    std::int32_t peer;
    std::int32_t partner;        // the other end of the message
    std::int32_t unlocks_begin;  // tasks that wait for it: unlocks_[begin of this .. of the next)
    std::int32_t waits;
    std::int32_t first, last;  // segments
    Verb verb;
    bool needs_arrival;  // works on the rank's own contribution, or hands it the result
    bool needed;         // the result waits for it
  };

  void add_rank(const Schedule& schedule, int rank, std::size_t begin);
  void check_progress(const Schedule& schedule) const;

  int ranks_;
  int segments_;
  std::vector<Task> tasks_;  // and one more, to end the last one's unlocks
  std::vector<std::int32_t> unlocks_;
  std::vector<std::int32_t> starters_;  // tasks that wait for none, in order
  std::vector<std::int32_t> needed_;    // per rank: tasks its result waits for
};

// arrivals_s: the real ones, one per rank, empty: all 0; the schedule's own problem may hold others
// (a wrong prediction). Throws ScheduleError on a deadlock.
Outcome simulate(const Schedule& schedule, std::uint64_t message_bytes, const Link& link,
                 const std::vector<double>& arrivals_s);

}  // namespace patallreduce::pricing
