// Reproducible: every segment is the sum of one fixed binary tree over the ranks, whatever the
// segments, the arrivals, the timing and the transport; at the bandwidth of a ring.
//
// Node (x, y) sums the ranks x .. x + 2^y - 1 that exist: node (x, y - 1) plus node
// (x + 2^(y-1), y - 1), the lower ranks on the left; without a right child it is its left child.
//
//   P = 6        0   1   2   3   4   5
//                 \ /     \ /     \ /        y = 1
//                 0-1     2-3     4-5
//                   \     /       /          y = 2
//                    0 - 3      4-5
//                        \      /            y = 3
//                         0 - 5              (((0+1)+(2+3))+(4+5))
//
// Any rank of a node may hold its sum, and each segment has holders of its own. The roots are dealt
// out as a ring's parts are. Going down, the child with its parent's holder keeps it; the other
// child's are dealt out evenly over its ranks, in the order of the parents' holders. So the holder
// of one child sends to the holder of the other, and every rank of a node holds as many segments of
// it. For a power of two this is recursive halving, nearest ranks first. Then the results go round
// a ring: each rank receives from one other only, whoever holds how many.
//
//   messages   2(P-1) per segment, no fewer are possible. A power of two: every rank sends and
//              receives 2(P-1)/P of the data. Otherwise rank r receives 1 + the sum of 1 / (ranks
//              of the node) over the nodes of r below the root that have two children: less than
//              2 times the data, most for P = 3 (3/2, where a ring takes 4/3)
//   depth      ceil(log2 P) messages until a result, P-1 until the last rank has it
//   sum order  the tree above; segments, arrivals and holders change nothing
//   source     Stelz, Karlsruhe Institute of Technology (2022), section 2, eq. 2.1-2.3: the tree;
//              Thakur, Rabenseifner, Gropp, IJHPCA 19 (2005), 49-66: halving, and the ring
//
// Where ranks share hosts (Problem::node_of), a child is held on its parent's host if no more
// messages between hosts come of it, else where fewest do. Roots are dealt out and go round host by
// host, so a result enters each once (around.h). Between N hosts of which each has a subtree to
// itself: 2(N-1) messages per segment.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <map>
#include <numeric>
#include <utility>
#include <vector>

#include "algorithms/algorithms.h"
#include "algorithms/around.h"
#include "schedule/parts.h"
#include "schedule/tree.h"

namespace patallreduce::algorithms {

using schedule::Part;
using schedule::part;
using schedule::tree_height;
using schedule::tree_node;
using schedule::TreeNode;
using schedule::Verb;

namespace {

// Of one node with two children, per segment.
struct Holders {
  std::vector<int> of_sum;    // who sums, and held one child's
  std::vector<int> of_other;  // who held the other child's, and sends it
};

// Deals `free` segments evenly to `ranks`, in the order of `of_parent`.
void deal(std::vector<int> free, const std::vector<int>& of_parent, const std::vector<int>& ranks,
          std::vector<int>& to) {
  std::stable_sort(free.begin(), free.end(),
                   [&](int a, int b) { return of_parent[a] < of_parent[b]; });
  const std::size_t count = free.size();
  for (std::size_t i = 0; i < count; ++i)
    to[free[i]] = ranks[(2 * i + 1) * ranks.size() / (2 * count)];
}

// By node of some ranks: how many messages between nodes it takes to sum these ranks there.
using Crossings = std::map<int, int>;

constexpr int any = -1;

int fewest(const Crossings& crossings) {
  const auto less = [](const auto& a, const auto& b) { return a.second < b.second; };
  return std::min_element(crossings.begin(), crossings.end(), less)->second;
}

class Reproducible {
 public:
  Reproducible(const Problem& problem, int rank)
      : problem_(problem),
        ranks_(problem.ranks),
        segments_(problem.segments),
        rank_(rank),
        order_(arrival_order(together(problem), rank)) {}

  Steps steps() {
    // From the root down to this rank; the steps go the other way.
    std::vector<std::pair<int, Holders>> nodes;  // height, holders
    std::vector<int> of_sum(segments_);
    for (int j = 0; j < ranks_; ++j) {
      const Part root = part(j, ranks_, segments_);
      std::fill(of_sum.begin() + root.first, of_sum.begin() + root.last, order_.ranks[j]);
    }
    for (int height = tree_height(ranks_); height > 0; --height) {
      const TreeNode node = tree_node(rank_, height, ranks_);
      if (!node.has_right()) continue;
      Holders holders = holders_of(node, height, std::move(of_sum));
      of_sum = of_child(node, holders);
      nodes.emplace_back(height, std::move(holders));
    }
    for (auto node = nodes.rbegin(); node != nodes.rend(); ++node) sum(node->second, node->first);
    if (by_node()) {
      std::vector<int> holders(ranks_);
      std::iota(holders.begin(), holders.end(), 0);
      append_results(problem_, order_, holders, order_.id, steps_);
    } else {
      hand_round();
    }
    return std::move(steps_);
  }

 private:
  static Problem together(Problem problem) {
    problem.arrivals_s.clear();
    return problem;
  }

  bool by_node() const { return !problem_.node_of.empty(); }
  int node_of(int rank) const { return by_node() ? problem_.node_of[rank] : rank; }

  Holders holders_of(const TreeNode& node, int height, std::vector<int> of_sum) const {
    std::vector<int> of_other(segments_);
    for (const int first : {node.first, node.middle}) {
      const int last = first == node.first ? node.middle : node.last;
      const Crossings crossings = by_node() ? crossings_of(first, height - 1) : Crossings();
      std::map<int, std::vector<int>> free;  // by the node that is to hold them
      for (int s = 0; s < segments_; ++s) {
        if (of_sum[s] >= first && of_sum[s] < last) continue;
        const auto parent = crossings.find(node_of(of_sum[s]));
        const bool there = parent != crossings.end() && parent->second <= fewest(crossings) + 1;
        free[there ? parent->first : any].push_back(s);
      }
      for (auto& [on, segments] : free)
        deal(std::move(segments), of_sum, ranks_on(on, first, last, crossings), of_other);
    }
    return {std::move(of_sum), std::move(of_other)};
  }

  // Of the ranks first .. last - 1 those on a node; on any: where fewest messages come of it.
  std::vector<int> ranks_on(int on, int first, int last, const Crossings& crossings) const {
    std::vector<int> ranks;
    for (int rank = first; rank < last; ++rank)
      if (crossings.empty() ||
          (on == any ? crossings.at(node_of(rank)) == fewest(crossings) : node_of(rank) == on))
        ranks.push_back(rank);
    return ranks;
  }

  // Of the node of the tree at that height which begins with `first`.
  Crossings crossings_of(int first, int height) const {
    if (height == 0) return {{node_of(first), 0}};
    const TreeNode node = tree_node(first, height, ranks_);
    const Crossings left = crossings_of(first, height - 1);
    if (!node.has_right()) return left;
    const Crossings right = crossings_of(node.middle, height - 1);
    const auto there = [](const Crossings& child, int on) {
      const auto found = child.find(on);
      const int least = fewest(child) + 1;
      return found == child.end() ? least : std::min(found->second, least);
    };
    Crossings both;
    for (const Crossings* const child : {&left, &right})
      for (const auto& [on, crossings] : *child) both[on] = there(left, on) + there(right, on);
    return both;
  }

  // The holders of the child that this rank belongs to.
  std::vector<int> of_child(const TreeNode& node, const Holders& holders) const {
    std::vector<int> of_child(segments_);
    for (int s = 0; s < segments_; ++s) {
      const bool same_side = (holders.of_sum[s] < node.middle) == (rank_ < node.middle);
      of_child[s] = same_side ? holders.of_sum[s] : holders.of_other[s];
    }
    return of_child;
  }

  void sum(const Holders& holders, int height) {
    std::vector<int> sent, taken;
    for (int s = 0; s < segments_; ++s) {
      if (holders.of_other[s] == rank_) sent.push_back(s);
      if (holders.of_sum[s] == rank_) taken.push_back(s);
    }
    spread(sent, holders.of_sum, 1);
    spread(taken, holders.of_other, -1);
    // Alternating, so that an executor that posts in program order keeps both directions busy.
    for (std::size_t i = 0; i < std::max(sent.size(), taken.size()); ++i) {
      if (i < sent.size()) add(Verb::send, holders.of_sum[sent[i]], sent[i], height - 1);
      if (i < taken.size())
        add(Verb::recv_reduce, holders.of_other[taken[i]], taken[i], height - 1);
    }
  }

  // One segment for each peer in turn, the nearest in `direction` first: neighbours of a rank with
  // many peers do not all send to the same one at a time. Segments of a pair stay in order.
  void spread(std::vector<int>& segments, const std::vector<int>& peers, int direction) const {
    std::map<int, int> met;
    std::vector<std::pair<std::pair<int, int>, int>> turns;
    for (const int s : segments) {
      const int distance = (direction * (peers[s] - rank_) + ranks_) % ranks_;
      turns.push_back({{met[peers[s]]++, distance}, s});
    }
    std::sort(turns.begin(), turns.end());
    for (std::size_t i = 0; i < turns.size(); ++i) segments[i] = turns[i].second;
  }

  void hand_round() {
    const int right = (rank_ + 1) % ranks_, left = (rank_ + ranks_ - 1) % ranks_;
    const auto part_at = [&](int distance) {  // whose root is that far to the left
      return part((rank_ + ranks_ - distance) % ranks_, ranks_, segments_);
    };
    for (int distance = 0; distance < ranks_ - 1; ++distance) {
      const Part out = part_at(distance), in = part_at(distance + 1);
      const int round = tree_height(ranks_) + distance;
      for (int i = 0; i < std::max(out.last - out.first, in.last - in.first); ++i) {
        if (out.first + i < out.last) add(Verb::send, right, out.first + i, round);
        if (in.first + i < in.last) add(Verb::recv, left, in.first + i, round);
      }
    }
  }

  void add(Verb verb, int peer, int segment, int round) {
    steps_.push_back({verb, peer, segment, segment + 1, round});
  }

  const Problem& problem_;
  const int ranks_, segments_, rank_;
  const ArrivalOrder order_;
  Steps steps_;
};

}  // namespace

Steps reproducible(const Problem& problem, int rank) { return Reproducible(problem, rank).steps(); }

// As a ring for a power of two. Otherwise just so finely that the largest left subtree, whose ranks
// are a power of two, shares evenly, at most 8 times. Simulated (benchmarks/segments.py), 4 MiB,
// 200 Mbit/s, times a ring with 1, 2, 4, 8 cuts: P = 5 1.37, 1.37, 1.22, 1.22; P = 6 1.50, 1.15,
// 1.22, 1.19; P = 12 1.27, 1.09, 1.09, 1.09.
std::int64_t reproducible_segments(int ranks, const Bucket& bucket, const Link& link) {
  const int left = 1 << (schedule::tree_height(ranks) - 1);  // ranks
  const int even = left / std::gcd(left, ranks);             // 1 for a power of two
  return in_parts(ranks, even > 1 ? std::min(even, 8) : ring_cuts(ranks, bucket, link), bucket);
}

}  // namespace patallreduce::algorithms
