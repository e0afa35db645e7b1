// Clairvoyant on a segment tree: one bit per rank and segment, 64 segments to a word.
//
// The leaves are the ranks' columns of bits, set for what a rank can send in this round; an inner
// node is the OR of its two children. What anyone but rank r can send is then the OR of the log P
// nodes beside r's way to the root, and who can send segment s, the first of them, is found by
// walking down.
//
//                 1             leaf(r) = leaves + column of r
//             2       3         what anyone but 5 can send: 4 | 3
//           4   5   6   7       who can send s, from 5 on: 5, then 6 under 3 (bit s of 5, 3, 6, 7)
//
// The columns lie in the order of the arrivals' rests after whole rounds, of which every group's
// order is a rotation. CLV20 gives every rank two columns, P apart, so that the rotated order is
// one from left to right; here a search goes to the right end and once more from the left one,
// which saves half of the tree and moves no columns when the rotation changes.
//
// Within a round bits are only cleared and at its end only set, so an update stops at the first
// node that does not change.
//
//   time    O(R P N / 64 log P) for R rounds at worst
//   memory  3 bits per rank and segment, P and N rounded up to a power of two and to a word: two
//           for the tree and one for what ranks hold (CLV20: 5)
//   source  CLV20, Listings 3-8
#include <algorithm>

#include "benchmarks/clairvoyant_rivals/rivals.h"

namespace patallreduce::algorithms {

using schedule::Problem;

namespace {

using Word = std::uint64_t;
constexpr std::int32_t word_bits = 64;

class TreePeers {
 public:
  TreePeers(const Problem& problem, const Group& group)
      : words_((problem.segments + word_bits - 1) / word_bits),
        leaves_(power_of_two_from(problem.ranks)),
        root_(problem.root),
        leaf_of_(problem.ranks),
        rank_at_(group.columns()),
        has_sent_(problem.ranks, false),
        held_(std::size_t(problem.ranks) * words_),
        tree_(2 * std::size_t(leaves_) * words_, 0) {
    for (std::int32_t column = 0; column < problem.ranks; ++column) {
      const std::int32_t rank = rank_at_[column];
      leaf_of_[rank] = leaves_ + column;
      Word* held = this->held(rank);
      std::fill(held, held + words_, ~Word(0));
      if (const std::int32_t rest = problem.segments % word_bits; rest > 0)
        held[words_ - 1] = (Word(1) << rest) - 1;
    }
  }

  void begin(const Group& group) {
    for (const std::int32_t rank : group.joined()) show(rank);
    first_leaf_ = leaf_of_[group.earliest()];
    root_is_here_ = group.has_root();
  }

  Found find(std::int32_t rank, bool is_sink) const {
    const std::int32_t segment = find_segment(rank, is_sink);
    if (segment < 0) return {};
    return {find_peer(rank, segment), segment};
  }

  bool holds(std::int32_t rank, std::int32_t segment) const {
    return held(rank)[segment / word_bits] & bit(segment);
  }

  void move(std::int32_t from, std::int32_t to, std::int32_t segment) {
    hide(from);
    held(from)[segment / word_bits] &= ~bit(segment);
    held(to)[segment / word_bits] &= ~bit(segment);
    hide(to, segment);
    received_.push_back({to, segment});
    senders_.push_back(from);
  }

  void end(const Group&) {
    for (const Found& cell : received_)
      held(cell.peer)[cell.segment / word_bits] |= bit(cell.segment);
    for (const std::int32_t rank : senders_) show(rank);
    for (const Found& cell : received_)
      if (!has_sent_[cell.peer]) show(cell.peer, cell.segment);
    for (const std::int32_t rank : senders_) has_sent_[rank] = false;
    received_.clear();
    senders_.clear();
  }

  std::size_t bytes() const { return (tree_.size() + held_.size()) * sizeof(Word); }

 private:
  static std::int32_t power_of_two_from(std::int32_t least) {
    std::int32_t power = 1;
    while (power < least) power *= 2;
    return power;
  }
  static Word bit(std::int32_t segment) { return Word(1) << (segment % word_bits); }

  Word* held(std::int32_t rank) { return &held_[std::size_t(rank) * words_]; }
  const Word* held(std::int32_t rank) const { return &held_[std::size_t(rank) * words_]; }
  Word* node(std::int32_t n) { return &tree_[std::size_t(n) * words_]; }
  const Word* node(std::int32_t n) const { return &tree_[std::size_t(n) * words_]; }
  bool has(std::int32_t n, std::int32_t segment) const {
    return node(n)[segment / word_bits] & bit(segment);
  }

  // The lowest segment that `rank` holds (a sink: any) and another can send; -1: none.
  std::int32_t find_segment(std::int32_t rank, bool is_sink) const {
    for (std::int32_t w = 0; w < words_; ++w) {
      const Word wanted = (is_sink ? ~Word(0) : held(rank)[w]) & node(1)[w];
      if (wanted == 0) continue;
      Word others = 0;
      for (std::int32_t n = leaf_of_[rank]; n > 1; n /= 2) others |= node(n ^ 1)[w];
      if (wanted & others) return w * word_bits + __builtin_ctzll(wanted & others);
    }
    return -1;
  }

  // The first of the group but `rank` that can send `segment`; there is one.
  std::int32_t find_peer(std::int32_t rank, std::int32_t segment) const {
    if (root_is_here_ && rank != root_ && has(leaf_of_[root_], segment)) return root_;
    const std::int32_t own = leaf_of_[rank];
    std::int32_t leaf = has(first_leaf_, segment) ? first_leaf_ : next_leaf(first_leaf_, segment);
    if (leaf == own) leaf = next_leaf(own, segment);
    if (leaf < 0) leaf = first_leaf_under(1, segment);
    if (leaf == own) leaf = next_leaf(own, segment);
    return rank_at_[leaf - leaves_];
  }

  // The next to the right of a leaf that has the bit, or -1.
  std::int32_t next_leaf(std::int32_t leaf, std::int32_t segment) const {
    for (std::int32_t n = leaf; n > 1; n /= 2)
      if (n % 2 == 0 && has(n + 1, segment)) return first_leaf_under(n + 1, segment);
    return -1;
  }

  // The node has the bit.
  std::int32_t first_leaf_under(std::int32_t n, std::int32_t segment) const {
    while (n < leaves_) n = 2 * n + !has(2 * n, segment);
    return n;
  }

  // `rank` can send what it holds.
  void show(std::int32_t rank) {
    const Word* held = this->held(rank);
    for (std::int32_t n = leaf_of_[rank]; n > 0; n /= 2) {
      Word* at = node(n);
      Word added = 0;
      for (std::int32_t w = 0; w < words_; ++w) {
        added |= held[w] & ~at[w];
        at[w] |= held[w];
      }
      if (added == 0) return;
    }
  }

  void show(std::int32_t rank, std::int32_t segment) {
    for (std::int32_t n = leaf_of_[rank]; n > 0 && !has(n, segment); n /= 2)
      node(n)[segment / word_bits] |= bit(segment);
  }

  // `rank` can send no more.
  void hide(std::int32_t rank) {
    has_sent_[rank] = true;
    std::int32_t n = leaf_of_[rank];
    std::fill(node(n), node(n) + words_, 0);
    for (n /= 2; n > 0; n /= 2) {
      Word* at = node(n);
      const Word *left = node(2 * n), *right = node(2 * n + 1);
      Word removed = 0;
      for (std::int32_t w = 0; w < words_; ++w) {
        const Word both = left[w] | right[w];
        removed |= at[w] ^ both;
        at[w] = both;
      }
      if (removed == 0) return;
    }
  }

  void hide(std::int32_t rank, std::int32_t segment) {
    std::int32_t n = leaf_of_[rank];
    if (!has(n, segment)) return;
    node(n)[segment / word_bits] &= ~bit(segment);
    for (; n > 1 && !has(n ^ 1, segment); n /= 2) node(n / 2)[segment / word_bits] &= ~bit(segment);
  }

  const std::int32_t words_;   // of a column
  const std::int32_t leaves_;  // and the number of the first of them
  const std::int32_t root_;
  std::vector<std::int32_t> leaf_of_;        // [rank]
  const std::vector<std::int32_t> rank_at_;  // [column]
  std::vector<char> has_sent_;               // [rank], in this round
  std::vector<Word> held_;                   // [rank * words + word]
  std::vector<Word> tree_;                   // [node * words + word]
  std::vector<Found> received_;              // rank and segment, in this round
  std::vector<std::int32_t> senders_;        // in this round
  std::int32_t first_leaf_ = 0;              // of the earliest of the group
  bool root_is_here_ = false;
};

}  // namespace

ClairvoyantSchedule clairvoyant_segment_tree(const Problem& problem) {
  return run_rounds<TreePeers>(problem);
}

}  // namespace patallreduce::algorithms
