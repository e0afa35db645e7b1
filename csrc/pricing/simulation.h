// Prices a stored schedule: when would every rank have its result?
//
// Event-driven (pricing/ports.h). Every rank has one full-duplex port: it sends one message at a
// time and receives one at a time. A message of n bytes occupies both ports for its transfer time
// and a share of the latency, and is there one latency after its transfer. Receives are posted
// before arrival, into private memory, so partial sums can be on a rank before it arrives; what
// involves the rank's own data waits for its arrival. A sum occupies the rank. A rank finishes with
// its result: what it still has to send does not count (early out).
//
//   cost    O(messages log messages); some 100 ns a message
//   source  Hockney, Parallel Computing 20 (1994), 389-398, for the link; single-port full-duplex
//           as in Thakur, Rabenseifner, Gropp, IJHPCA 19 (2005), section 3
#pragma once

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "pricing/account.h"
#include "pricing/link.h"
#include "schedule/messages.h"
#include "schedule/schedule.h"

namespace patallreduce::pricing {

using schedule::Messages;
using schedule::Schedule;
using schedule::Steps;
using schedule::Verb;

// How long things take where no link is known. A message occupies both ports for port_s and
// its units, and is there flight_s later.
struct Pace {
  double port_s, flight_s, unit_s, sum_unit_s;
};

class Simulation;

// One of several collectives that share the ranks' ports.
struct InFlight {
  const Simulation* schedule;
  std::uint64_t message_bytes;
  std::vector<std::int32_t> ranks;  // by place in the schedule, whose port it is; empty: in order
  std::vector<double> arrivals_s;   // by place, from 0 on
  // A message moves in so many, each of which is handed on as soon as it is there: as a schedule
  // with so many times the segments does, for less.
  int pieces = 1;
};

// A schedule prepared once, to be run under many arrivals.
class Simulation {
 public:
  // Throws ScheduleError for a schedule whose messages do not match.
  explicit Simulation(const Schedule& schedule);

  std::size_t messages() const { return tasks_.size() / 2; }

  // arrivals_s: one per rank, finite; empty: all 0. Throws ScheduleError otherwise, and for a
  // deadlock: whether there is one never depends on the timing.
  Outcome run(std::uint64_t message_bytes, const Link& link, const std::vector<double>& arrivals_s,
              bool with_uses = false) const;
  // Without a link, in equal units of the data. Gives up, with infinite times, once it is clear
  // that a rank finishes after `limit_s`.
  std::vector<double> finish_s(int units, const Pace& pace, const std::vector<double>& arrivals_s,
                               double limit_s) const;

 private:
  friend class PreparedSteps;
  friend std::vector<std::vector<double>> run_together(const std::vector<InFlight>& collectives,
                                                       const Link& link, PortsBusy& busy, Turn turn,
                                                       bool shared_ports);
  struct Task {  // a step, numbered across ranks: those of rank r come before those of r + 1
    std::int32_t peer, first, last;
    std::int32_t partner;  // the other end of the message
    std::int32_t waits;    // for so many earlier ones; -1: done
    std::int32_t record;   // of a run, see Ports::recorded
    Verb verb;
    bool needs_arrival, landed;  // landed: of a run, its message is here
  };

  void add_rank(const Steps& steps, const Messages& messages);

  int ranks_;
  int segments_;
  std::vector<Task> tasks_;
  std::vector<std::int32_t> unlocks_, unlocks_begin_;  // as in schedule/order.h, of tasks
  std::vector<std::int32_t> begin_;                    // per rank, and the end
};

// When each has its result, by collective and place. What is equally due leaves in the order of the
// collectives. `busy`: the ports' times before all this, then after it. shared_ports: as of
// pricing/network.h; what came before is then taken to be over.
std::vector<std::vector<double>> run_together(const std::vector<InFlight>& collectives,
                                              const Link& link, PortsBusy& busy,
                                              Turn turn = Turn::first_ready,
                                              bool shared_ports = false);

// arrivals_s: the real ones, one per rank, empty: all 0; the schedule's own problem may hold others
// (a wrong prediction). Throws ScheduleError on a deadlock.
Outcome simulate(const Schedule& schedule, std::uint64_t message_bytes, const Link& link,
                 const std::vector<double>& arrivals_s);

}  // namespace patallreduce::pricing
