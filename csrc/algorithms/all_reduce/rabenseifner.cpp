// Rabenseifner: recursive halving leaves every rank with the sum of one part, recursive doubling
// hands the parts out again. Bandwidth as of the ring in 2 log2 P rounds.
//
// P that is no power of two is cut into blocks, one per binary digit of P, largest first (binary
// blocks). Every block halves on its own; then the smaller blocks' sums go up from block to block
// and the results down again, before the blocks double. Folding whole messages in and out would
// take (4 - 2/Q) M; this takes 2.1M to 2.3M where there are two blocks of near sizes (P = 6, 12,
// 48) and up to 3.6M where one rank is over (P = 17; simulated), where a ring is faster.
//
//   P = 6: blocks 0 1 2 3 | 4 5, the data as four parts
//     halving    0 <-> 2, 1 <-> 3: two parts    4 <-> 5: two parts     recv_reduce
//                0 <-> 1, 2 <-> 3: one part
//     up         4 -> 0, 1    5 -> 2, 3: one part each                 recv_reduce
//     down       0, 1 -> 4    2, 3 -> 5                                recv
//     doubling   the halving backwards                                 recv
//
//   messages   2 log2 Q of every rank of a block of Q, M/2, M/4, ... M/Q and back: 2(Q-1)/Q of the
//              data; between blocks M/Q more for the larger block's ranks, as much as they hold
//              for the smaller's
//   depth      2 log2 P rounds, two more per further block
//   sum order  by part: the halving's tree in each block, smaller blocks' sums to the larger's.
//              Computed by one rank and copied to all; arrivals change nothing
//   source     Rabenseifner, ICCS 2004, LNCS 3036, 1-9; Pjesivac-Grbovic, PhD thesis, Tennessee
//              (2007), section 4.1, reduce and allreduce
//
// A message covers many segments. It is cut as finely as segments are finer than the parts of the
// largest block: into segments / Q pieces, at least one; so with Q segments or fewer this is the
// published algorithm. Parts need not be equal, and empty ones send nothing.
#include <algorithm>
#include <cstddef>
#include <utility>

#include "algorithms/algorithms.h"
#include "algorithms/estimates.h"
#include "algorithms/powers.h"
#include "schedule/parts.h"

namespace patallreduce::algorithms {

using schedule::Part;
using schedule::part;
using schedule::Verb;

namespace {

struct Block {
  int first, size;
};

// Ranks first, first + 1, ...; sizes are the binary digits of `ranks`, the largest first.
Block block_of(int ranks, int rank) {
  Block block{0, power_of_two_within(ranks)};
  while (rank >= block.first + block.size) {
    block.first += block.size;
    block.size = power_of_two_within(ranks - block.first);
  }
  return block;
}

class Rabenseifner {
 public:
  Rabenseifner(const Problem& problem, int rank)
      : problem_(problem),
        largest_(power_of_two_within(problem.ranks)),
        block_(block_of(problem.ranks, rank)),
        id_(rank - block_.first) {}

  Steps steps() {
    for (int distance = block_.size / 2; distance > 0; distance /= 2) {
      const int round = floor_log2(block_.size / distance) - 1;
      pass(Verb::send, in_block(id_ ^ distance), held(id_ ^ distance, distance), round);
      pass(Verb::recv_reduce, in_block(id_ ^ distance), held(id_, distance), round);
    }
    smaller(Verb::recv_reduce, up_round(block_.first + block_.size));
    larger(Verb::send, up_round(block_.first));
    larger(Verb::recv, down_round(block_.first));
    smaller(Verb::send, down_round(block_.first + block_.size));
    for (int distance = 1; distance < block_.size; distance *= 2) {
      const int round = first_doubling_round() + floor_log2(distance);
      pass(Verb::send, in_block(id_ ^ distance), held(id_, distance), round);
      pass(Verb::recv, in_block(id_ ^ distance), held(id_ ^ distance, distance), round);
    }
    return std::move(steps_);
  }

 private:
  int in_block(int id) const { return block_.first + id; }

  // The parts that `id` shares with the ids that differ from it in the bits below `distance` only.
  Part held(int id, int distance) const {
    const int first = id / distance * distance;
    return {part(first, block_.size, problem_.segments).first,
            part(first + distance - 1, block_.size, problem_.segments).last};
  }

  // A part of this block is part of one part of any smaller block. The halves nest exactly:
  // part(i, Q) ends where part(2i + 1, 2Q) does.
  void smaller(Verb verb, int round) {
    const int first = block_.first + block_.size;
    if (first == problem_.ranks) return;
    const Block block = block_of(problem_.ranks, first);
    pass(verb, first + id_ / (block_.size / block.size), held(id_, 1), round);
  }

  void larger(Verb verb, int round) {
    if (block_.first == 0) return;
    const Block block = block_of(problem_.ranks, block_.first - 1);
    const int parts = block.size / block_.size;
    for (int id = id_ * parts; id < (id_ + 1) * parts; ++id) {
      pass(verb, block.first + id, part(id, block.size, problem_.segments), round);
    }
  }

  void pass(Verb verb, int peer, Part range, int round) {
    const int segments = range.last - range.first;
    const int pieces = std::min(std::max(problem_.segments / largest_, 1), segments);
    for (int i = 0; i < pieces; ++i) {
      const Part piece = part(i, pieces, segments);
      steps_.push_back({verb, peer, range.first + piece.first, range.first + piece.last, round});
    }
  }

  // Rounds: halving, the smallest block up first, the smallest down last, doubling. `first` is the
  // first rank of the smaller of the two blocks; as many blocks begin from there on as there are
  // binary digits in the rest.
  int blocks_from(int first) const { return __builtin_popcount(problem_.ranks - first); }
  int up_round(int first) const { return floor_log2(largest_) + blocks_from(first) - 1; }
  int down_round(int first) const { return first_doubling_round() - blocks_from(first); }
  int first_doubling_round() const { return floor_log2(largest_) + 2 * (blocks_from(0) - 1); }

  const Problem& problem_;
  const int largest_;
  const Block block_;
  const int id_;
  Steps steps_;
};

}  // namespace

Steps rabenseifner(const Problem& problem, int rank) { return Rabenseifner(problem, rank).steps(); }

// The parts of the largest block, cut for the cache only: messages in pieces let a balanced call
// overlap sums with transfers, but get into each other's way once a rank is late. Simulated
// (benchmarks/segments.py), P = 8, 4 MiB, 1 GB/s, in 1, 2, 4, 8 pieces: 8.1, 7.7, 7.4, 7.4 ms; with
// a rank late by 2 ms 10.1, 12.0, 13.3, 13.0 ms.
std::int64_t halving_segments(int ranks, const Bucket& bucket, const Link&) {
  return in_parts(power_of_two_within(ranks), 1, bucket);
}

std::vector<double> estimate_halving(const std::vector<double>& arrivals_s, int,
                                     double message_bytes, const Link& link) {
  const std::size_t ranks = arrivals_s.size();
  const int rounds = floor_log2(static_cast<int>(ranks));
  const auto there_and_back_s = [&](double bytes) {
    return 2 * hop_s(bytes, link) + bytes / link.reduce_bytes_per_s;
  };
  double after_s = 0;
  for (int round = 1; round <= rounds; ++round) {
    after_s += there_and_back_s(message_bytes / double(std::size_t(1) << round));
  }
  // The other blocks of ranks hand up and are told what each of their ranks holds.
  for (int block = 0; block < rounds; ++block) {
    const std::size_t block_ranks = std::size_t(1) << block;
    if (ranks & block_ranks) after_s += there_and_back_s(message_bytes / double(block_ranks));
  }
  return all_after_the_last(arrivals_s, after_s);
}

}  // namespace patallreduce::algorithms
