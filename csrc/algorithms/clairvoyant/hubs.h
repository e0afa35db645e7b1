// All-reduce over hubs: a hub sums a share of the data and tells everybody. Early ranks take large
// shares, late ones small ones or none.
//
//   6 ranks, 4 early     places in order of arrival: 0 1 2 3 are early, 4 5 late
//     row of segments    0 1 2 3         whose hubs they are; every second row 0 1 2 3 4 5
//     shares             all others -> hub, as soon as both are there     recv_reduce
//     results            hub -> all others                                recv
//
// Nobody waits for a rank but the hubs, and they for each rank alone: a late rank delays nothing
// but its own contribution, which leaves it once. It passes nothing on but its own results.
//
//   messages   2(P-1) per segment. A rank sends the data once, less its own share, and its share's
//              results to P-1 others; it takes its share of everybody's data and all other results
//   depth      2 messages: as many follow each other through a port as in a ring, but none waits
//              for one of a third rank. In a ring 2(P-1) latencies add up, here 2
//   after      of k late ranks, once the others are done among themselves: with P-k hubs
//              (P-1)/(P-k) of the time in which the data passes a port: an early one takes k
//              contributions to 1/(P-k) of the data, and the other results. Late hubs of shares of
//              w make that 1 + (k-1)(1-kw)/(P-k), but send for 1 + (P-2) w. A ring takes 2(P-1)/P;
//              slt 1 for k <= 2, and 2 beyond. Never less than (P+k-2)/P (patallreduce/lower_bound)
//   sum order  of a segment: its hub's, then the others by arrival, ties as their messages come in
#pragma once

#include <vector>

#include "schedule/schedule.h"

namespace patallreduce::algorithms {

using schedule::Problem;
using schedule::Steps;

struct Hubs {
  int early = 1;      // 1..ranks of them have a segment in every row
  int every = 0;      // the late ones have one, too, in every n-th row; 0: never
  bool ring = false;  // early ones sum around a ring: steadier where they come together

  int row(int index, int ranks) const {  // its segments
    return every > 0 && index % every == every - 1 ? ranks : early;
  }
  int segments(int rows, int ranks) const {
    return rows * early + (every > 0 ? rows / every * (ranks - early) : 0);
  }
};

// What a rank has not sent of its own data by the last arrival, as a share of whole_s, in which all
// of it could leave. sorted_s: the ranks' arrivals in order.
double unsent(const std::vector<double>& sorted_s, double whole_s, int place);

// Those that are worth pricing; the early ones come so long before the last one.
std::vector<Hubs> promising_hubs(const std::vector<double>& sorted_s, double whole_s, int segments);

std::vector<Steps> over_hubs(const Problem& problem, const Hubs& hubs);

}  // namespace patallreduce::algorithms
