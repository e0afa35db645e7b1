#include "algorithms/radix.h"

#include <algorithm>
#include <cstdint>
#include <utility>

#include "algorithms/algorithms.h"
#include "algorithms/pass.h"
#include "algorithms/powers.h"
#include "algorithms/trees.h"

namespace patallreduce::algorithms {

using schedule::part;

std::vector<RadixRound> nearest_first(const std::vector<int>& radices) {
  std::vector<RadixRound> rounds;
  int stride = 1;
  for (const int radix : radices) {
    rounds.push_back({radix, stride});
    stride *= radix;
  }
  return rounds;
}

std::vector<int> radices_within(int ranks) {
  for (;; --ranks) {
    std::vector<int> radices;
    int left = ranks;
    for (const int radix : {4, 2, 3})
      for (; left % radix == 0; left /= radix) radices.push_back(radix);
    if (left == 1) return radices;
  }
}

int ids_within(int ranks) {
  int ids = 1;
  for (const int radix : radices_within(ranks)) ids *= radix;
  return ids;
}

std::vector<RadixRound> halving_rounds(int ranks) {
  std::vector<RadixRound> rounds;
  for (int stride = power_of_two_within(ranks) / 2; stride > 0; stride /= 2)
    rounds.push_back({2, stride});
  return rounds;
}

RadixSteps::RadixSteps(const Problem& problem, int rank, int root, std::vector<RadixRound> rounds,
                       Slices slices)
    : problem_(problem), root_(root), rounds_(std::move(rounds)), slices_(slices) {
  for (const RadixRound& round : rounds_) ids_ *= round.radix;
  over_ = problem.ranks - ids_;
  place_ = place_of(rank, root, problem.ranks);
  if (!folds()) {
    id_ = place_ - over_;
  } else if (place_ % 2 == 0) {
    id_ = place_ / 2;
  }
}

int RadixSteps::rank_of_id(int id) const {
  return rank_of(id < over_ ? 2 * id : id + over_, root_, problem_.ranks);
}

int RadixSteps::pair() const { return rank_of(place_ ^ 1, root_, problem_.ranks); }

Part RadixSteps::folded_block() const {
  if (!folds()) return {0, 0};
  return part(place_ | 1, problem_.ranks, problem_.segments);
}

// The first segment of slice `index`.
int RadixSteps::edge(int index) const {
  if (slices_ == Slices::even) return part(index, ids_, problem_.segments).first;
  return part(index + std::min(index, over_), problem_.ranks, problem_.segments).first;
}

Part RadixSteps::slice(int id, std::size_t rounds) const {
  int index = 0, width = ids_;
  for (std::size_t i = 0; i < rounds; ++i) {
    width /= rounds_[i].radix;
    index += digit(id, rounds_[i]) * width;
  }
  return {edge(index), edge(index + width)};
}

int RadixSteps::member(const RadixRound& round, int digit) const {
  return id_ + ((digit + round.radix) % round.radix - this->digit(id_, round)) * round.stride;
}

void RadixSteps::fold_in(Verb take, Part range) {
  if (over_ == 0) return;
  if (folds()) pass(steps, id_ < 0 ? Verb::send : take, pair(), range, round_);
  ++round_;
}

void RadixSteps::fold_out(Part range) {
  if (folds()) pass(steps, id_ < 0 ? Verb::recv : Verb::send, pair(), range, round_);
}

// Members take turns: in turn t each sends to the t-th after it and takes from the t-th before it.
void RadixSteps::reduce_scatter() {
  for (std::size_t i = 0; i < rounds_.size(); ++i, ++round_) {
    if (id_ < 0) continue;
    const RadixRound& round = rounds_[i];
    const int own = digit(id_, round);
    for (int turn = 1; turn < round.radix; ++turn) {
      const int to = member(round, own + turn), from = member(round, own - turn);
      exchange(steps, rank_of_id(to), slice(to, i + 1), Verb::recv_reduce, rank_of_id(from),
               slice(id_, i + 1), round_);
    }
  }
}

void RadixSteps::all_gather() {
  for (std::size_t i = rounds_.size(); i-- > 0; ++round_) {
    if (id_ < 0) continue;
    const RadixRound& round = rounds_[i];
    const int own = digit(id_, round);
    for (int turn = 1; turn < round.radix; ++turn) {
      const int to = member(round, own + turn), from = member(round, own - turn);
      exchange(steps, rank_of_id(to), slice(id_, i + 1), Verb::recv, rank_of_id(from),
               slice(from, i + 1), round_);
    }
  }
}

void RadixSteps::gather() {
  bool holds = id_ >= 0;  // until it has handed its slice on
  for (std::size_t i = rounds_.size(); i-- > 0; ++round_) {
    if (!holds) continue;
    const RadixRound& round = rounds_[i];
    if (digit(id_, round) > 0) {
      pass(steps, Verb::send, rank_of_id(member(round, 0)), slice(id_, i + 1), round_);
      holds = false;
      continue;
    }
    for (int other = 1; other < round.radix; ++other) {
      const int from = member(round, other);
      pass(steps, Verb::recv, rank_of_id(from), slice(from, i + 1), round_);
    }
  }
}

std::int64_t radix_segments(int ranks, const Bucket& bucket, const Link&) {
  return in_parts(ids_within(ranks), 1, bucket);
}

}  // namespace patallreduce::algorithms
