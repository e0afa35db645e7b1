// All-to-all: the first half of the segments are what this rank gives, a block for each rank; the
// second half are what it gets, a block of each rank. Its block for itself stays where it is. In
// round i every rank sends to the i-th rank after it and receives from the i-th before it, so that
// no port carries two messages of a round.
//
// Two halves, because no block may wait for another: in place, a rank could not receive block r
// before it had sent its own, and where a send ends when it is received, all would wait in a
// circle.
//
//   segments   a multiple of 2 * ranks, all of one size
//   messages   ranks - 1 blocks each way
//   source     Thakur, Rabenseifner, Gropp, IJHPCA 19 (2005), 49-66, section 4.3 (long messages)
#include "algorithms/algorithms.h"
#include "errors.h"

namespace patallreduce::algorithms {

using schedule::Verb;

namespace {

void move(Steps& steps, Verb verb, int peer, int block, int per_block, int round) {
  for (int s = block * per_block; s < (block + 1) * per_block; ++s)
    steps.push_back({verb, peer, s, s + 1, round});
}

}  // namespace

Steps pairwise_all_to_all(const Problem& problem, int rank) {
  const int ranks = problem.ranks;
  PATR_CHECK(problem.segments % (2 * ranks) == 0, ScheduleError, "all_to_all of ", ranks,
             " ranks: expected a multiple of ", 2 * ranks, " segments, got ", problem.segments);
  const int per_block = problem.segments / (2 * ranks);
  Steps steps;
  for (int i = 1; i < ranks; ++i) {
    const int to = (rank + i) % ranks, from = (rank + ranks - i) % ranks;
    move(steps, Verb::send, to, to, per_block, i - 1);
    move(steps, Verb::recv, from, ranks + from, per_block, i - 1);
  }
  return steps;
}

}  // namespace patallreduce::algorithms
