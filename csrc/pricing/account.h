// What a run of the clock finds, and what it is asked.
#pragma once

#include <cmath>
#include <cstdint>
#include <vector>

namespace patallreduce::pricing {

// When a message occupied its two ports; where they are shared: from its begin until it had left.
// `send`: the step of `rank`, numbered as the run numbers them: across ranks as in
// schedule/messages.h, or, of steps that are generated, in the rank's program.
struct PortUse {
  std::int32_t rank, send;
  double begin_s, end_s;
};

struct Outcome {
  std::vector<double> finish_s;  // per rank, on the clock of arrivals_s
  std::vector<PortUse> uses;     // in the order of asking for the port, if they were wanted

  double average_elapsed_s(
      const std::vector<double>& arrivals_s) const;  // mean of finish - arrival
  double after_last_arrival_s(const std::vector<double>& arrivals_s) const;
};

struct PathStep {
  std::int32_t rank;
  std::int32_t step;  // in the rank's program; -1: its arrival
  double done_s;
};

// Per port, seconds: until when its last message takes it.
struct PortsBusy {
  std::vector<double> sends_until_s, receives_until_s;
};

struct Account {
  Outcome outcome;
  PortsBusy busy;
  // Per rank: how long its port sends, receives, and its processor works.
  std::vector<double> sends_s, receives_s, works_s;
  // From an arrival to the last finish: each the latest of what the next had to wait for. Empty
  // unless asked for.
  std::vector<PathStep> critical_path;
};

// Which of a port's ready sends leaves next. The executor's leave in the order in which they became
// ready; the others are there to be compared with (benchmarks/jobs/turns.py).
enum class Turn { first_ready, first_collective, last_collective, least_left };

struct Accounting {
  bool critical_path = false;     // stores every step: 24 bytes each
  bool in_order_of_time = false;  // even where ranks could be run one by one; for tests
  bool uses = false;
  Turn turn = Turn::first_ready;  // of collectives together
  double limit_s = HUGE_VAL;      // a run that takes longer is given up, its times infinite
};

// Throws ScheduleError unless there are none, or a finite one for every rank.
void check_arrivals(const std::vector<double>& arrivals_s, int ranks);

// Runs count time from the first arrival, so that no rounding depends on the clock's zero: first
// come, first served turns a tie that is rounded apart into another order.
struct RunClock {
  explicit RunClock(const std::vector<double>& arrivals_s);

  void put_back(Account& account) const;  // on the clock of the arrivals

  double zero_s;
  std::vector<double> arrivals_s;  // from zero_s on; empty if all are 0
};

}  // namespace patallreduce::pricing
