// Clairvoyant as CLV16 describes its own program: for every segment a pairing heap of the ranks
// that can send it in this round, for every rank a sorted flat set of the segments it holds.
//
// A rank that has sent leaves all heaps of its segments until the round is over (CLV20,
// section 5.7, found that faster than skipping it).
//
//   time    O(P N^2 log P): N insertions and removals for each of the P N messages (CLV20, Lemma 1)
//   memory  16 bytes per rank and segment: a heap's node by number instead of by pointer, and the
//           set's entry; Boost's node and a handle to it would take 56
//   source  CLV16, section 5.4.1; Fredman, Sedgewick, Sleator, Tarjan, Algorithmica 1 (1986),
//   111-129
#include <algorithm>
#include <numeric>
#include <utility>

#include "benchmarks/clairvoyant_rivals/rivals.h"

namespace patallreduce::algorithms {

using schedule::Problem;

namespace {

// One heap per segment; a rank is at most once in each.
class Heaps {
 public:
  Heaps(const Problem& problem, const Group& group)
      : group_(group),
        ranks_(problem.ranks),
        top_(problem.segments, none),
        nodes_(std::size_t(problem.ranks) * problem.segments) {}

  void insert(std::int32_t segment, std::int32_t rank) {
    node(segment, rank) = {none, none, none, true};
    top_[segment] = meld(segment, top_[segment], rank);
  }

  bool contains(std::int32_t segment, std::int32_t rank) const {
    return nodes_[at(segment, rank)].inside;
  }

  void erase(std::int32_t segment, std::int32_t rank) {
    Node& erased = node(segment, rank);
    erased.inside = false;
    const std::int32_t below = meld_children(segment, rank);
    if (top_[segment] == rank) {
      top_[segment] = below;
      return;
    }
    Node& previous = node(segment, erased.previous);
    (previous.child == rank ? previous.child : previous.next) = erased.next;
    if (erased.next != none) node(segment, erased.next).previous = erased.previous;
    top_[segment] = meld(segment, top_[segment], below);
  }

  // The first rank but this one; none if there is no other.
  std::int32_t first_but(std::int32_t segment, std::int32_t rank) const {
    const std::int32_t top = top_[segment];
    if (top != rank) return top;
    std::int32_t first = nodes_[at(segment, top)].child;
    for (std::int32_t other = first; other != none; other = nodes_[at(segment, other)].next)
      if (group_.before(other, first)) first = other;
    return first;
  }

  std::size_t bytes() const {
    return nodes_.size() * sizeof(Node) + top_.size() * sizeof(std::int32_t);
  }

  static constexpr std::int32_t none = -1;

 private:
  struct Node {  // ranks
    std::int32_t child = none, next = none;
    std::int32_t previous : 31;  // sibling, or parent of the first
    bool inside : 1;

    Node(std::int32_t child_, std::int32_t next_, std::int32_t previous_, bool inside_)
        : child(child_), next(next_), previous(previous_), inside(inside_) {}
    Node() : previous(none), inside(false) {}
  };

  std::size_t at(std::int32_t segment, std::int32_t rank) const {
    return std::size_t(segment) * ranks_ + rank;
  }
  Node& node(std::int32_t segment, std::int32_t rank) { return nodes_[at(segment, rank)]; }

  std::int32_t meld(std::int32_t segment, std::int32_t a, std::int32_t b) {
    if (a == none) return b;
    if (b == none) return a;
    if (group_.before(b, a)) std::swap(a, b);
    Node &above = node(segment, a), &below = node(segment, b);
    below.next = above.child;
    below.previous = a;
    if (above.child != none) node(segment, above.child).previous = b;
    above.child = b;
    return a;
  }

  // Pairs from left to right, then all of them from right to left.
  std::int32_t meld_children(std::int32_t segment, std::int32_t rank) {
    std::int32_t pairs = none;  // linked by `next`, the last one first
    for (std::int32_t child = node(segment, rank).child; child != none;) {
      const std::int32_t second = node(segment, child).next;
      const std::int32_t after = second == none ? none : node(segment, second).next;
      const std::int32_t pair = meld(segment, child, second);
      node(segment, pair).next = pairs;
      pairs = pair;
      child = after;
    }
    std::int32_t all = none;
    while (pairs != none) {
      const std::int32_t next = node(segment, pairs).next;
      all = meld(segment, all, pairs);
      pairs = next;
    }
    return all;
  }

  const Group& group_;
  const std::int32_t ranks_;
  std::vector<std::int32_t> top_;  // [segment]
  std::vector<Node> nodes_;        // [segment * ranks + rank]
};

class HeapPeers {
 public:
  HeapPeers(const Problem& problem, const Group& group)
      : segments_(problem.segments), heaps_(problem, group), held_(problem.ranks) {
    for (auto& held : held_) {
      held.resize(segments_);
      std::iota(held.begin(), held.end(), 0);
    }
  }

  void begin(const Group& group) {
    for (const std::int32_t rank : group.joined())
      for (const std::int32_t s : held_[rank]) heaps_.insert(s, rank);
  }

  Found find(std::int32_t rank, bool is_sink) const {
    if (is_sink) {
      for (std::int32_t s = 0; s < segments_; ++s)
        if (const auto peer = heaps_.first_but(s, rank); peer != Heaps::none) return {peer, s};
    } else {
      for (const std::int32_t s : held_[rank])
        if (const auto peer = heaps_.first_but(s, rank); peer != Heaps::none) return {peer, s};
    }
    return {};
  }

  bool holds(std::int32_t rank, std::int32_t segment) const {
    return std::binary_search(held_[rank].begin(), held_[rank].end(), segment);
  }

  void move(std::int32_t from, std::int32_t to, std::int32_t segment) {
    for (const std::int32_t s : held_[from]) heaps_.erase(s, from);
    drop(from, segment);
    senders_.push_back(from);
    if (holds(to, segment)) {
      if (heaps_.contains(segment, to)) heaps_.erase(segment, to);
      drop(to, segment);
    }
    received_.push_back({to, segment});
  }

  void end(const Group&) {
    for (const Found& cell : received_) {
      auto& held = held_[cell.peer];
      held.insert(std::lower_bound(held.begin(), held.end(), cell.segment), cell.segment);
    }
    for (const std::int32_t rank : senders_)
      for (const std::int32_t s : held_[rank]) heaps_.insert(s, rank);
    for (const Found& cell : received_)
      if (!heaps_.contains(cell.segment, cell.peer)) heaps_.insert(cell.segment, cell.peer);
    received_.clear();
    senders_.clear();
  }

  std::size_t bytes() const {
    return heaps_.bytes() + held_.size() * segments_ * sizeof(std::int32_t);
  }

 private:
  void drop(std::int32_t rank, std::int32_t segment) {
    auto& held = held_[rank];
    held.erase(std::lower_bound(held.begin(), held.end(), segment));
  }

  const std::int32_t segments_;
  Heaps heaps_;
  std::vector<std::vector<std::int32_t>> held_;  // [rank], ascending
  std::vector<Found> received_;                  // rank and segment
  std::vector<std::int32_t> senders_;
};

}  // namespace

ClairvoyantSchedule clairvoyant_pairing_heap(const Problem& problem) {
  return run_rounds<HeapPeers>(problem);
}

}  // namespace patallreduce::algorithms
