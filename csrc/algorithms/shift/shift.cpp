// Shift: every rank hands a block to the next rank, and what it gets on to the one after. All ports
// are busy in both directions all the time, and a round takes what one message takes from rank to
// rank: so the link meter times it. Not a collective for users.
//
// A block keeps its place in the message on all ranks. Blocks within reach of one rank, those of
// three ranks in a row, have different places: the ranks' numbers modulo 3, but for the last one or
// two ranks, whose places are their own.
//
// Where ranks share nodes the first ranks of the nodes do this among themselves, the others
// nothing. The next rank is the next in the order of arrivals. As "neighbours" there is one round,
// so that a rank's time tells of its own port and of the one before's alone; as "long_shift" there
// are many, so that what a call costs besides counts for nothing. With R rounds R + 1 ranks in a
// row have different places, and there are min(ranks, 2 R + 1).
//
//   segments   a multiple of the places, min(ranks, 5)
//   messages   2 blocks each way
//   source     the ring's rounds, however many ranks: Thakur, Rabenseifner, Gropp, IJHPCA 19
//   (2005),
//              49-66, section 4.1
#include <algorithm>
#include <set>

#include "algorithms/algorithms.h"
#include "errors.h"

namespace patallreduce::algorithms {

using schedule::Verb;

namespace {

int place_of(int rank, int ranks, int rounds) {
  if (ranks <= places_of_shift(ranks, rounds)) return rank;
  const int reach = rounds + 1, alike = ranks - ranks % reach;
  return rank < alike ? rank % reach : reach + rank - alike;
}

}  // namespace

std::vector<std::int32_t> first_ranks(const Problem& problem) {
  std::vector<std::int32_t> first;
  std::set<std::int32_t> seen;
  for (std::int32_t rank = 0; rank < problem.ranks; ++rank)
    if (problem.node_of.empty() || seen.insert(problem.node_of[rank]).second) first.push_back(rank);
  const std::vector<double>& arrivals_s = problem.arrivals_s;
  if (!arrivals_s.empty())
    std::stable_sort(first.begin(), first.end(), [&](std::int32_t a, std::int32_t b) {
      return arrivals_s[std::size_t(a)] < arrivals_s[std::size_t(b)];
    });
  return first;
}

int places_of_shift(int ranks, int rounds) { return std::min(ranks, 2 * rounds + 1); }

namespace {

Steps shifted(const Problem& problem, int rank, int rounds) {
  const std::vector<std::int32_t> taking_part = first_ranks(problem);
  const int ranks = int(taking_part.size()), places = places_of_shift(ranks, rounds);
  PATR_CHECK(problem.segments % places == 0, ScheduleError, "shift of ", ranks,
             " ranks: expected a multiple of ", places, " segments, got ", problem.segments);
  Steps steps;
  const auto found = std::find(taking_part.begin(), taking_part.end(), rank);
  if (ranks == 1 || found == taking_part.end()) return steps;
  const int own = int(found - taking_part.begin());
  const int pieces = problem.segments / places;
  const int next = (own + 1) % ranks, previous = (own + ranks - 1) % ranks;
  for (int round = 0; round < rounds; ++round) {
    const int given = place_of((own + ranks - round % ranks) % ranks, ranks, rounds);
    const int taken = place_of((previous + ranks - round % ranks) % ranks, ranks, rounds);
    for (int piece = 0; piece < pieces; ++piece) {
      const int send = given * pieces + piece, recv = taken * pieces + piece;
      steps.push_back({Verb::send, taking_part[next], send, send + 1, round});
      steps.push_back({Verb::recv, taking_part[previous], recv, recv + 1, round});
    }
  }
  return steps;
}

}  // namespace

Steps shift(const Problem& problem, int rank) { return shifted(problem, rank, shift_rounds); }

Steps long_shift(const Problem& problem, int rank) {
  return shifted(problem, rank, long_shift_rounds);
}

Steps neighbours(const Problem& problem, int rank) { return shifted(problem, rank, 1); }

}  // namespace patallreduce::algorithms
