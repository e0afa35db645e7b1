// Trees, by which data flow up to a root (reduce) or down from it (broadcast), and the pipeline of
// segments along them.
//
//   place     a rank's number in its tree, counted from the root on: (rank - root) modulo P
//   flat      everybody is a child of the root
//   chains    the other places in k runs of near equal length: each hands to the one before it
//   binomial  place x stands below x without its lowest binary one: a subtree is the places from x
//             on, as many as that one is worth
//   binary    two children, the subtrees of the odd and the even places: their numbers of places
//             differ by at most one, and 2i + 1 stands where 2i + 2 does in the other
//
//     P = 7     binomial  0            binary    0           in-order       6
//                        /|\                    / \                       /  \          .
//                       1 2 4                  1   2                     2    5
//                         | |\                / \ / \                   / \  / \        .
//                         3 5 6              3  5 4  6                 0  1  3  4
//
// The in-order tree's places are ranks: rank P - 1 is the root, its children the last ranks of the
// two halves of the rest. Summed as (lower half + (upper half + own)), ranks stand in their order.
//
//   source  Pjesivac-Grbovic, PhD thesis, Tennessee (2007), section 4.1.1, Fig. 4.1 to 4.3
#pragma once

#include <vector>

#include "schedule/parts.h"
#include "schedule/schedule.h"

namespace patallreduce::algorithms {

using schedule::Part;
using schedule::Steps;

struct Family {
  int parent = -1;            // the root has none
  std::vector<int> children;  // in the order in which their data are taken, or given to them
};

Family chain_family(int ranks, int place, int chains);
Family binary_family(int ranks, int place);
Family in_order_binary_family(int ranks, int rank);
// The smallest subtree first: the order of a reduction, which finds it ready first.
Family binomial_family(int ranks, int place);
// A binomial tree for a broadcast: the largest subtree first.
Family falling_binomial_family(int ranks, int place);
// Of a binomial subtree: the places [first, last).
Part binomial_subtree(int ranks, int place);

inline int place_of(int rank, int root, int ranks) { return (rank - root + ranks) % ranks; }
inline int rank_of(int place, int root, int ranks) { return (root + place) % ranks; }
// From places to ranks.
Family rooted(Family family, int root, int ranks);

// One segment, taken from all children and handed on.
void sum_up(Steps& steps, const Family& family, int segment);
void hand_down(Steps& steps, const Family& family, int segment);

Steps reduce_along(const Family& family, int segments);
// Child by child instead of segment by segment: a binomial tree's children come one after another.
Steps reduce_by_child(const Family& family, int segments);
Steps broadcast_along(const Family& family, int segments);

}  // namespace patallreduce::algorithms
