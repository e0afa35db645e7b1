// All-gather: rank r's block, segments [r, r + 1) * segments / ranks, goes to everybody, each copy
// straight from its owner. In round i every rank sends to the i-th rank after it and receives from
// the i-th before it, so that no port carries two messages of a round.
//
//   messages   ranks - 1 blocks each way, as a ring sends; no block waits for another
//   source     Thakur, Rabenseifner, Gropp, IJHPCA 19 (2005), 49-66, section 4.3: the order of
//              partners, there of an all-to-all
#include "algorithms/algorithms.h"
#include "schedule/parts.h"

namespace patallreduce::algorithms {

using schedule::Part;
using schedule::part;
using schedule::Verb;

namespace {

void move(Steps& steps, Verb verb, int peer, const Part& block, int round) {
  for (int s = block.first; s < block.last; ++s) steps.push_back({verb, peer, s, s + 1, round});
}

}  // namespace

Steps pairwise_all_gather(const Problem& problem, int rank) {
  const int ranks = problem.ranks;
  const auto block = [&](int of) { return part(of, ranks, problem.segments); };
  Steps steps;
  for (int i = 1; i < ranks; ++i) {
    const int to = (rank + i) % ranks, from = (rank + ranks - i) % ranks;
    move(steps, Verb::send, to, block(rank), i - 1);
    move(steps, Verb::recv, from, block(from), i - 1);
  }
  return steps;
}

}  // namespace patallreduce::algorithms
