// What makes sense to ask a generator for.
#include "schedule/schedule.h"

#include <cmath>
#include <cstddef>

#include "errors.h"

namespace patallreduce::schedule {

const char* name(Verb verb) {
  switch (verb) {
    case Verb::send:
      return "send";
    case Verb::recv:
      return "recv";
    case Verb::recv_reduce:
      return "recv_reduce";
  }
  return "unknown";
}

void check(const Problem& problem) {
  PATR_CHECK(problem.ranks >= 1, ScheduleError,
             "expected at least 1 rank, got ranks = ", problem.ranks);
  PATR_CHECK(problem.segments >= 1, ScheduleError,
             "expected at least 1 segment, got segments = ", problem.segments);
  PATR_CHECK(problem.root >= 0 && problem.root < problem.ranks, ScheduleError,
             "expected a root in 0..", problem.ranks - 1, ", got root = ", problem.root);
  PATR_CHECK(std::isfinite(problem.segment_time_s) && problem.segment_time_s >= 0, ScheduleError,
             "expected a finite segment_time_s >= 0, got ", problem.segment_time_s);
  PATR_CHECK(std::isfinite(problem.latency_s) && problem.latency_s >= 0, ScheduleError,
             "expected a finite latency_s >= 0, got ", problem.latency_s);
  PATR_CHECK(std::isfinite(problem.sum_s) && problem.sum_s >= 0, ScheduleError,
             "expected a finite sum_s >= 0, got ", problem.sum_s);
  const std::size_t nodes = problem.node_of.size();
  PATR_CHECK(nodes == 0 || nodes == std::size_t(problem.ranks), ScheduleError,
             "expected one node per rank (", problem.ranks, "), got ", nodes, " nodes");
  for (std::size_t rank = 0; rank < nodes; ++rank)
    PATR_CHECK(problem.node_of[rank] >= 0 && problem.node_of[rank] < problem.ranks, ScheduleError,
               "expected a node in 0..", problem.ranks - 1, ", got ", problem.node_of[rank],
               " for rank ", rank);
  const std::size_t ports = problem.ports.size();
  PATR_CHECK(ports == 0 || ports == std::size_t(problem.ranks), ScheduleError,
             "expected one port per rank (", problem.ranks, "), got ", ports, " ports");
  for (std::size_t rank = 0; rank < ports; ++rank)
    PATR_CHECK(problem.ports[rank] >= 1 && problem.ports[rank] <= most_port_width, ScheduleError,
               "expected a port's width in 1..", most_port_width, ", got ", problem.ports[rank],
               " for rank ", rank);
  const std::size_t arrivals = problem.arrivals_s.size();
  PATR_CHECK(arrivals == 0 || arrivals == std::size_t(problem.ranks), ScheduleError,
             "expected one arrival per rank (", problem.ranks, "), got ", arrivals, " arrivals");
  for (std::size_t rank = 0; rank < arrivals; ++rank) {
    const double arrival_s = problem.arrivals_s[rank];
    PATR_CHECK(std::isfinite(arrival_s) && arrival_s >= 0, ScheduleError,
               "expected a finite arrival >= 0 s, got ", arrival_s, " s for rank ", rank);
  }
}

}  // namespace patallreduce::schedule
