// Two-tree: two binary trees over all ranks, such that who has two children in one is a leaf of the
// other; even segments are summed up and handed down the first, odd ones the second. So every rank
// has work for its port, where a single tree leaves half of its ranks idle.
//
//   P = 6     even segments   0            odd segments   5       its mirror image
//                              \                         /
//                               4                       1
//                              / \                     / \                              .
//                             2   5                   0   3
//                            / \                         / \                            .
//                           1   3                       2   4
//
//   messages   2(P-1) per segment; every rank sends and takes the data about twice
//   depth      2 (floor(log2 (P-1)) + 1) hops, of two messages each, pipelined
//   sum order  two trees, by the segment's parity: own, + lower ranks, + upper ranks. Computed by
//              one rank and copied to all; arrivals change nothing
//   source     Sanders, Speck, Traeff, Parallel Computing 35 (2009), 581-594; a rival in Marendic
//              et al., J. Supercomput. 72 (2016), Table 3. The published colours of the edges,
//              which give each message a round, are left out: ports serve what is ready. First
//              come, first served, leaves wait for their parents' ports with other sends behind
//              them: simulated, P = 8, 16 MiB, 1 GB/s, 59 ms, where 2 M beta is 34, a ring takes 30
//              and one binomial tree 74
//
// The first tree is in-order: place x > 0 stands as high as its trailing binary zeros, its children
// half of that to both sides, less where there is no such place; place 0 has one child. Odd places
// are leaves. In the second tree a rank's place is P - 1 - rank if P is even, rank - 1 (modulo P)
// if it is odd, so that it is of the other parity (but for rank 0, where P is odd).
#include <cmath>

#include "algorithms/algorithms.h"
#include "algorithms/powers.h"
#include "algorithms/trees.h"

namespace patallreduce::algorithms {

namespace {

Family leafy_family(int ranks, int place) {
  Family family;
  if (place == 0) {
    if (ranks > 1) family.children.push_back(power_of_two_within(ranks - 1));
    return family;
  }
  const int height = place & -place, below = place - height;
  family.parent = (below | 2 * height) < ranks ? below | 2 * height : below;
  int distance = height / 2;
  if (distance > 0) family.children.push_back(place - distance);
  while (place + distance >= ranks) distance /= 2;
  if (distance > 0) family.children.push_back(place + distance);
  return family;
}

Family mirrored(Family family, int ranks) {
  if (family.parent >= 0) family.parent = ranks - 1 - family.parent;
  for (int& child : family.children) child = ranks - 1 - child;
  return family;
}

}  // namespace

Steps two_tree(const Problem& problem, int rank) {
  const int ranks = problem.ranks;
  const Family trees[2] = {
      leafy_family(ranks, rank),
      ranks % 2 == 0
          ? mirrored(leafy_family(ranks, ranks - 1 - rank), ranks)
          : rooted(leafy_family(ranks, place_of(rank, 1 % ranks, ranks)), 1 % ranks, ranks),
  };
  Steps steps;
  for (int s = 0; s < problem.segments; ++s) sum_up(steps, trees[s % 2], s);
  for (int s = 0; s < problem.segments; ++s) hand_down(steps, trees[s % 2], s);
  return steps;
}

// As for a pipeline of 4 log2 P stages that takes two messages a segment.
std::int64_t two_tree_segments(int ranks, const Bucket& bucket, const Link& link) {
  return pipelined(2 * std::log2(ranks), transfer_s(bucket, link), bucket, link);
}

}  // namespace patallreduce::algorithms
