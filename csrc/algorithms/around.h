// Parts that go around the ranks: each is summed on its way from rank to rank, in the order of ids,
// and its sum goes around once more. What rings have in common, whoever arrives when.
//
//   part that starts at id 2 of P = 4     2 -> 3 -> 0 -> 1     recv_reduce: id 1 has the sum
//                                         1 -> 2 -> 3 -> 0     recv
//
// Where ranks share nodes, a part starts with the first rank of a node, so that it enters every
// other node once. The last rank of the node before then has the sum, and hands it to the next node
// and to the first rank of its own: a result enters every other node once, too.
//
//   nodes (0 1) (2 3), part of (2 3)      2 -> 3 -> 0 -> 1     recv_reduce
//                                         1 -> 2 -> 3, 1 -> 0  recv
//
//   messages   2(P-1) per part; of these 2(N-1) between N nodes
#pragma once

#include <vector>

#include "algorithms/arrival_order.h"

namespace patallreduce::algorithms {

using schedule::Steps;

// tops[id]: the last part that has started with it or an id before, never falling; the last id's is
// P - 1. Of a node only the last id's counts, for all of them.
Steps around(const Problem& problem, const ArrivalOrder& order, std::vector<int> tops);

// The results alone, recv above: holders[part] is the id that has its sum. A rank takes them in
// falling order, from `first` on.
void append_results(const Problem& problem, const ArrivalOrder& order,
                    const std::vector<int>& holders, int first, Steps& steps);

}  // namespace patallreduce::algorithms
