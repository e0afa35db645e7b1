// Recursive doubling barrier: a recursive doubling of nothing.
//
//   P = 6     4 -> 0   5 -> 1         recv_reduce, round 0
//             0 <-> 1  2 <-> 3        recv_reduce, round 1
//             0 <-> 2  1 <-> 3        recv_reduce, round 2
//             0 -> 4   1 -> 5         recv, round 3
//
//   messages   log2 Q of a rank that exchanges, of no data; one more each way for the ranks that
//              fold and their partners (Q: the largest power of two <= P)
//   depth      log2 P rounds, floor(log2 P) + 2 if P is no power of two (Table 4.2 has ceil)
//   sum order  none: there is nothing to sum
//   source     Pjesivac-Grbovic, PhD thesis, Tennessee (2007), section 4.1.2, barrier; Table 4.2
#include "algorithms/algorithms.h"

namespace patallreduce::algorithms {

using schedule::Step;

Steps recursive_doubling_barrier(const Problem& problem, int rank) {
  Problem nothing = problem;
  nothing.segments = 1;
  Steps steps = recursive_doubling(nothing, rank);
  for (Step& step : steps) step.last = problem.segments;
  return steps;
}

}  // namespace patallreduce::algorithms
