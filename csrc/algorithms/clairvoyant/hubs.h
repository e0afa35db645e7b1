// All-reduce over hubs: the earliest ranks each sum a share of the data and tell everybody.
//
//   6 ranks, 4 hubs     places in order of arrival: 0 1 2 3 are hubs, 4 5 are late
//     segment s         hub s mod 4
//     share             0 1 2 3 <- each other, as soon as both are there     recv_reduce
//                       0 1 2 3 <- 4, 5, as soon as they are there           recv_reduce
//     tell              the hub -> all others                                recv
//
// Nobody waits for a rank but the hubs, and they for each rank alone: a late rank delays nothing
// but its own contribution, which leaves it once. It is told results and never passes any on.
//
//   messages   2(P-1) per segment. A rank sends the data once, a hub 1/m of it to P-1 others as
//              well; it takes in 1/m of it from everybody, and the rest finished
//   depth      2 messages: as many follow each other through a port as in a ring, but none waits
//              for another rank's. In a ring 2(P-1) latencies add up, here 2
//   after      of k late ranks, the P-k others being hubs that are done among themselves:
//              (P-1)/(P-k) of the time in which the data passes a port. Ring 2(P-1)/P; slt 1 for
//              k <= 2 and 2 beyond
//   sum order  hubs in their order from the segment's on, then the others by arrival
#pragma once

#include <vector>

#include "schedule/schedule.h"

namespace patallreduce {

struct Hubs {
  int count = 1;      // 1..ranks, the earliest; segments >= count to use them all
  bool ring = false;  // hubs reduce-scatter around a ring: steadier where they come together
};

std::vector<Steps> over_hubs(const Problem& problem, const Hubs& hubs);

}  // namespace patallreduce
