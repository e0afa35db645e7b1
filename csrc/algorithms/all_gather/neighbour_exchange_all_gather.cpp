// Neighbour exchange all-gather: ranks exchange with their right and left neighbours in turn, first
// their own blocks, then the two blocks of a pair that the last exchange brought.
//
//   P = 6     0 <-> 1   2 <-> 3   4 <-> 5      a block each way, round 0
//             1 <-> 2   3 <-> 4   5 <-> 0      two blocks each way: the own pair's, round 1
//             0 <-> 1   2 <-> 3   4 <-> 5      two blocks each way: those just received, round 2
//
//   messages   P - 1 blocks each way, (P-1)/P of the data, to and from neighbours alone
//   depth      P/2 rounds, half of the ring's. If P is odd, the last rank folds: it swaps blocks
//              with the rank before it first (one round more), and is given each block as it comes
//   sum order  none: blocks are copied
//   source     Chen, Zhang, Zhang, Yuan, HPC Asia 2005; Pjesivac-Grbovic, PhD thesis, Tennessee
//              (2007), section 4.1.2, allgather, Fig. 4.6; Table 4.6. Folding is ours
#include <utility>

#include "algorithms/algorithms.h"
#include "algorithms/pass.h"

namespace patallreduce::algorithms {

using schedule::part;

namespace {

class NeighbourExchange {
 public:
  NeighbourExchange(const Problem& problem, int rank)
      : problem_(problem), rank_(rank), paired_(problem.ranks / 2 * 2) {}

  Steps steps() {
    if (problem_.ranks == 1) return {};
    if (feeds()) swap_blocks(paired_);
    if (rank_ == paired_) swap_blocks(paired_ - 1);
    const int first_round = paired_ < problem_.ranks ? 1 : 0;
    for (int i = 0; i < paired_ / 2; ++i) {
      const int round = first_round + i;
      if (rank_ == paired_) {
        pass(steps_, Verb::recv, rank_ - 1, taken(rank_ - 1, i), round);
        continue;
      }
      // Even ranks turn right first.
      const int to_right = (rank_ + i) % 2 == 0 ? 1 : -1;
      const int other = (rank_ + to_right + paired_) % paired_;
      exchange(steps_, other, taken(other, i), Verb::recv, other, taken(rank_, i), round);
      if (feeds()) pass(steps_, Verb::send, paired_, taken(rank_, i), round);
    }
    return std::move(steps_);
  }

 private:
  bool feeds() const { return paired_ < problem_.ranks && rank_ == paired_ - 1; }

  Part blocks(int first, int last) const {
    return {part(first, problem_.ranks, problem_.segments).first,
            part(last, problem_.ranks, problem_.segments).last};
  }

  // Of the folded rank and the one that feeds it.
  void swap_blocks(int other) {
    exchange(steps_, other, blocks(rank_, rank_), Verb::recv, other, blocks(other, other), 0);
  }

  // Of one paired rank; the last one's is followed by that of the folded rank.
  Part block(int rank) const {
    return blocks(rank, rank == paired_ - 1 ? problem_.ranks - 1 : rank);
  }

  // What `rank` takes in exchange i: its partner's block, then pairs from both sides in turn.
  Part taken(int rank, int i) const {
    if (i == 0) return block(rank ^ 1);
    const int pairs = paired_ / 2;
    const int away = (i + 1) / 2, direction = (rank + i) % 2 == 0 ? 1 : -1;
    const int pair = ((rank / 2 + direction * away) % pairs + pairs) % pairs;
    return {block(2 * pair).first, block(2 * pair + 1).last};
  }

  const Problem& problem_;
  const int rank_;
  const int paired_;  // ranks that exchange: an even number
  Steps steps_;
};

}  // namespace

Steps neighbour_exchange_all_gather(const Problem& problem, int rank) {
  return NeighbourExchange(problem, rank).steps();
}

}  // namespace patallreduce::algorithms
