// Prices a schedule: when would every rank have its result?
//
// Event-driven. Every rank has one full-duplex port: it sends one message at a time and receives
// one at a time. A message of n bytes occupies both ports for its transfer time and is there one
// latency later. Receives are posted before arrival, into private memory, so partial sums can be on
// a rank before it arrives; what involves the rank's own data waits for its arrival. A sum occupies
// the rank. A rank finishes with its result: what it still has to send does not count (early out).
#pragma once

#include <cstdint>
#include <utility>
#include <vector>

#include "schedule/schedule.h"

namespace patallreduce {

struct Link {
  double latency_s = 20e-6;
  double bytes_per_s = 1e9;  // of long messages
  double reduce_bytes_per_s = 5e9;
  // Measured transfer seconds by message bytes, ascending, without latency; between two sizes
  // linear, beyond them by bytes_per_s. Empty: bytes / bytes_per_s.
  std::vector<std::pair<double, double>> transfers_s;

  double transfer_s(double message_bytes) const;
};

struct Outcome {
  std::vector<double> finish_s;  // per rank, on the clock of arrivals_s

  double average_elapsed_s(
      const std::vector<double>& arrivals_s) const;  // mean of finish - arrival
  double after_last_arrival_s(const std::vector<double>& arrivals_s) const;
};

// arrivals_s: the real ones, one per rank, empty: all 0; the schedule's own problem may hold others
// (a wrong prediction). Throws ScheduleError on a deadlock.
Outcome simulate(const Schedule& schedule, std::uint64_t message_bytes, const Link& link,
                 const std::vector<double>& arrivals_s);

}  // namespace patallreduce
