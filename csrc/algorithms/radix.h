// Rounds in which groups of ids exchange pieces of a slice of the data. A round of radix k makes
// groups of k ids, `stride` apart; all of a group hold partial sums of one slice, cut it into k
// pieces, and each ends with the sum of its own. After all rounds each of Q ids holds 1/Q of the
// data, Q being the product of the radices. Backwards, the rounds bring the pieces together again.
//
//   Q = 6, radices 2, 3, nearest first
//     0 <-> 1    2 <-> 3    4 <-> 5            halves
//     0 <-> 2 <-> 4 <-> 0, 1 <-> 3 <-> 5 <-> 1  thirds of a half
//
// Ranks over Q fold into ids: an odd place below 2 (P - Q) gives its data to the even one before it
// first and is given its result last. Places are counted from the root, which therefore is id 0.
//
//   messages   per id k - 1 each way in a round of radix k; Q pieces in all but one's own: (Q-1)/Q
//              of the data each way. Folding adds the whole data each way for 2 (P - Q) ranks
//   source     Peterka, Goodell, Ross, Shen, Thakur, SC 2009, as Radix-k in Marendic et al., J.
//              Supercomput. 72 (2016), section 5.5.4; with radices of 2 Rabenseifner, ICCS 2004,
//              LNCS 3036, 1-9
#pragma once

#include <vector>

#include "schedule/parts.h"
#include "schedule/schedule.h"

namespace patallreduce::algorithms {

using schedule::Part;
using schedule::Problem;
using schedule::Steps;
using schedule::Verb;

struct RadixRound {
  int radix, stride;
};

// Strides 1, k1, k1 k2, ...
std::vector<RadixRound> nearest_first(const std::vector<int>& radices);
// Q, the largest number <= ranks without prime factors but 2 and 3.
int ids_within(int ranks);
// Of Q: fours, a two, threes.
std::vector<int> radices_within(int ranks);
// Radices 2 for the largest power of two <= ranks, at half its distance first: the slices then lie
// in the order of the ids.
std::vector<RadixRound> halving_rounds(int ranks);

// Appends one rank's steps, phase by phase.
class RadixSteps {
 public:
  enum class Slices {
    even,   // an id's is 1/Q of the data
    blocks  // the blocks of its own place and of the one folded into it; needs halving_rounds
  };

  RadixSteps(const Problem& problem, int rank, int root, std::vector<RadixRound> rounds,
             Slices slices);

  // The one of a pair that takes no part in the rounds hands over `range` (its own, as the pair's
  // other end sees it), or is handed it back.
  void fold_in(Verb take, Part range);
  void fold_out(Part range);

  // Do nothing on a rank that is folded.
  void reduce_scatter();
  void all_gather();
  void gather();  // to id 0

  Part everything() const { return {0, problem_.segments}; }
  Part folded_block() const;  // of the pair's folded place; empty without one

  Steps steps;

 private:
  int digit(int id, const RadixRound& round) const { return id / round.stride % round.radix; }
  int member(const RadixRound& round, int digit) const;  // of this id's group
  int rank_of_id(int id) const;
  int edge(int index) const;
  Part slice(int id, std::size_t rounds) const;  // after so many rounds
  bool folds() const { return place_ < 2 * over_; }
  int pair() const;

  const Problem& problem_;
  const int root_;
  const std::vector<RadixRound> rounds_;
  const Slices slices_;
  int ids_ = 1;    // Q
  int over_ = 0;   // P - Q
  int place_ = 0;  // this rank's
  int id_ = -1;    // this rank's; -1: it is folded
  int round_ = 0;  // of the next message
};

}  // namespace patallreduce::algorithms
