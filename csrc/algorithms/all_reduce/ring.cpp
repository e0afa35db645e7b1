// Ring: every part is summed once around the ranks, then goes round once more, finished.
//
//   part 0 of P = 4     0 -> 1 -> 2 -> 3        recv_reduce, rounds 0..2: rank 3 has the sum
//                       3 -> 0 -> 1 -> 2        recv, rounds 3..5
//   in every round each rank sends one part to its right and takes another from its left
//
//   messages   2(P-1) parts sent by every rank, 2(P-1)/P of the data
//   depth      2(P-1) rounds; the segments of a part are pipelined
//   sum order  part j: ((j + j+1) + j+2) + ..., by rank modulo P; arrivals change nothing
//   source     Thakur, Rabenseifner, Gropp, IJHPCA 19 (2005), 49-66; as a rival of slt and prr in
//              Proficz, J. Supercomput. 74 (2018), arXiv:1804.05349, section 2
#include <algorithm>

#include "algorithms/algorithms.h"
#include "schedule/parts.h"

namespace patallreduce::algorithms {

using schedule::Part;
using schedule::part;
using schedule::Problem;
using schedule::Steps;
using schedule::Verb;

int ring_rounds(const Problem& problem) { return 2 * (problem.ranks - 1); }

void append_ring_round(const Problem& problem, int rank, int round, Steps& steps) {
  const int ranks = problem.ranks;
  const int right = rank + 1 < ranks ? rank + 1 : 0, left = (rank > 0 ? rank : ranks) - 1;
  const auto part_at = [&](int distance) {  // of the part that started that far to the left
    int first = rank - distance;
    while (first < 0) first += ranks;
    return part(first, ranks, problem.segments);
  };
  const Verb take = round < ranks - 1 ? Verb::recv_reduce : Verb::recv;
  const Part out = part_at(round), in = part_at(round + 1);
  // Alternating, so that an executor that posts in program order keeps both directions busy.
  for (int i = 0; i < std::max(out.last - out.first, in.last - in.first); ++i) {
    const int sent = out.first + i, taken = in.first + i;
    if (sent < out.last) steps.push_back({Verb::send, right, sent, sent + 1, round});
    if (taken < in.last) steps.push_back({take, left, taken, taken + 1, round});
  }
}

Steps ring(const Problem& problem, int rank) {
  Steps steps;
  for (int round = 0; round < ring_rounds(problem); ++round) {
    append_ring_round(problem, rank, round, steps);
  }
  return steps;
}

}  // namespace patallreduce::algorithms
