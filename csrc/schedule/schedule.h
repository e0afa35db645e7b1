// A schedule is plain data: for every rank a list of steps over segments.
//
// One ordering rule, shared by verifier, simulator and executor: a step waits for the earlier
// steps of its rank that touch its segments, at least one of the two writing (recv and
// recv_reduce write, send reads); messages from one rank to another match in program order.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace patallreduce::schedule {

enum class Verb : std::uint8_t { send, recv, recv_reduce };

const char* name(Verb verb);

struct Step {
  Verb verb;
  std::int32_t peer;
  std::int32_t first;  // segments [first, last)
  std::int32_t last;
  std::int32_t round = -1;  // -1: the algorithm has no rounds
};

inline bool operator==(const Step& a, const Step& b) {
  return a.verb == b.verb && a.peer == b.peer && a.first == b.first && a.last == b.last &&
         a.round == b.round;
}

using Steps = std::vector<Step>;

constexpr std::int32_t most_port_width = 65535;

// What a generator is asked for. Valid once `check` has accepted it.
struct Problem {
  int ranks = 1;
  int segments = 1;
  std::vector<double> arrivals_s;  // seconds on a common clock, one per rank; empty: all equal
  // prr's tau: transfer and reduction of 1/ranks of the data; clairvoyant's round: of a segment.
  double segment_time_s = 0;
  int root = 0;
  // Clairvoyant all-reduce, parts of segment_time_s: what a longer message would not take more of,
  // and the sum, during which the next message can be on its way.
  double latency_s = 0;
  double sum_s = 0;
  // Per rank, >= 0: ranks of one node share its port to the others. Empty: no two ranks do.
  std::vector<std::int32_t> node_of = {};
  // Per rank, 1 to most_port_width: the bandwidth of its port, in any unit. Empty: alike.
  std::vector<std::int32_t> ports = {};
};

// Throws ScheduleError: ranks or segments < 1, arrivals of the wrong length, NaN or negative, ...
void check(const Problem& problem);

struct Schedule {
  std::string algorithm;
  std::string collective = "all_reduce";
  Problem problem;
  std::vector<Steps> steps;  // [rank]
  bool tree = false;         // it promises the sum of schedule/tree.h over the ranks
};

}  // namespace patallreduce::schedule
