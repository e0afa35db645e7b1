// Pairwise exchange: in round i every rank sends to the i-th rank after it and receives from the
// i-th before it, so that no port carries two messages of a round.
//
//   all_to_all   block r goes to rank r; what rank r sent takes its place. Segments are the ranks'
//                blocks, so many for each.
//   all_gather   rank r's block goes to everybody's block r.
//
//   messages   P - 1 blocks each way; a round waits for none before it
//   source     Thakur, Rabenseifner, Gropp, IJHPCA 19 (2005), 49-66, section 4.3 (long messages)
#include "algorithms/algorithms.h"
#include "errors.h"

namespace patallreduce {

namespace {

int segments_per_block(const Problem& problem) {
  PATR_CHECK(problem.segments % problem.ranks == 0, ScheduleError,
             "expected a multiple of the ranks (", problem.ranks, ") as segments, got ",
             problem.segments);
  return problem.segments / problem.ranks;
}

// Appends a message of each segment of a block.
void move(Steps& steps, Verb verb, int peer, int block, int per_block) {
  for (int s = block * per_block; s < (block + 1) * per_block; ++s)
    steps.push_back({verb, peer, s, s + 1});
}

}  // namespace

Steps pairwise_all_to_all(const Problem& problem, int rank) {
  const int ranks = problem.ranks, per_block = segments_per_block(problem);
  Steps steps;
  for (int i = 1; i < ranks; ++i) {
    const int to = (rank + i) % ranks;
    move(steps, Verb::send, to, to, per_block);
  }
  for (int i = 1; i < ranks; ++i) {
    const int from = (rank + ranks - i) % ranks;
    move(steps, Verb::recv, from, from, per_block);
  }
  return steps;
}

Steps pairwise_all_gather(const Problem& problem, int rank) {
  const int ranks = problem.ranks, per_block = segments_per_block(problem);
  Steps steps;
  for (int i = 1; i < ranks; ++i) {
    const int to = (rank + i) % ranks, from = (rank + ranks - i) % ranks;
    move(steps, Verb::send, to, rank, per_block);
    move(steps, Verb::recv, from, from, per_block);
  }
  return steps;
}

}  // namespace patallreduce
