// Split-binary broadcast: the first half of the segments goes down the left half of a balanced
// binary tree, the second half down the right one; then ranks in pairs, one of each half, exchange.
//
//   root 0 of P = 6     0 -> 1 -> 3, 5: first half    0 -> 2 -> 4: second half      recv
//                       1 <-> 2, 3 <-> 4: halves      0 -> 5: second half           recv
//
//   messages   P - 1 per segment. The root sends the data once (3/2 times if P is even, where the
//              last place has no partner), another rank at most 3/2 times
//   depth      floor(log2 P) levels of two messages each, pipelined over half of the segments, then
//              half of the data at once: a third less than binary for large messages
//   sum order  none: the root's data are copied
//   source     Pjesivac-Grbovic, PhD thesis, Tennessee (2007), section 4.1.2, broadcast, and
//              section 4.3.1
#include "algorithms/algorithms.h"
#include "algorithms/pass.h"
#include "algorithms/trees.h"

namespace patallreduce::algorithms {

// The left half of the tree are the odd places; place 2i + 1 has partner 2i + 2.
Steps split_binary_broadcast(const Problem& problem, int rank) {
  const int ranks = problem.ranks, segments = problem.segments;
  const int place = place_of(rank, problem.root, ranks), middle = (segments + 1) / 2;
  const Part halves[2] = {{0, middle}, {middle, segments}};
  const bool alone = ranks % 2 == 0;  // the last place
  const int last = rank_of(ranks - 1, problem.root, ranks);
  Steps steps;
  if (place == 0) {
    for (int i = 0; i < middle; ++i) {
      for (int half = 0; half < 2; ++half) {
        const int s = halves[half].first + i, child = half + 1;
        if (s < halves[half].last && child < ranks)
          pass(steps, Verb::send, rank_of(child, problem.root, ranks), {s, s + 1});
      }
    }
    if (alone) pass(steps, Verb::send, last, halves[1]);
    return steps;
  }
  const bool left = place % 2 == 1;
  const Part own = halves[left ? 0 : 1], other = halves[left ? 1 : 0];
  const Family family = rooted(binary_family(ranks, place), problem.root, ranks);
  for (int s = own.first; s < own.last; ++s) hand_down(steps, family, s);
  if (alone && place == ranks - 1) {
    pass(steps, Verb::recv, problem.root, other);
    return steps;
  }
  const int partner = rank_of(left ? place + 1 : place - 1, problem.root, ranks);
  exchange(steps, partner, own, Verb::recv, partner, other, -1);
  return steps;
}

}  // namespace patallreduce::algorithms
