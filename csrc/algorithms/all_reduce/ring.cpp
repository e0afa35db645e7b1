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
//
// Where ranks share nodes, parts start at nodes: around.h.
#include <algorithm>
#include <numeric>
#include <utility>

#include "algorithms/algorithms.h"
#include "algorithms/around.h"
#include "algorithms/estimates.h"
#include "schedule/parts.h"

namespace patallreduce::algorithms {

using schedule::Part;
using schedule::part;
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
  if (!problem.node_of.empty()) {
    Problem together = problem;
    together.arrivals_s.clear();
    std::vector<int> tops(problem.ranks);
    std::iota(tops.begin(), tops.end(), 0);
    return around(together, arrival_order(together, rank), std::move(tops));
  }
  Steps steps;
  for (int round = 0; round < ring_rounds(problem); ++round) {
    append_ring_round(problem, rank, round, steps);
  }
  return steps;
}

std::int64_t ring_segments(int ranks, const Bucket& bucket, const Link& link) {
  return in_parts(ranks, ring_cuts(ranks, bucket, link), bucket);
}

std::vector<double> estimate_ring(const std::vector<double>& arrivals_s, int segments,
                                  double message_bytes, const Link& link) {
  const double ranks = static_cast<double>(arrivals_s.size());
  const double part_bytes = message_bytes / ranks;
  const double cuts = std::max(segments / ranks, 1.0);
  const double segment_bytes = part_bytes / cuts;
  // A round takes the part through the port, or one segment's way, whichever is longer.
  const double port_s = cuts * (link.port_share * link.latency_s + link.transfer_s(segment_bytes));
  const double sum_s = segment_bytes / link.reduce_bytes_per_s;
  const double round_s = std::max(port_s, hop_s(segment_bytes, link));
  return all_after_the_last(
      arrivals_s,
      2 * (ranks - 1) * round_s +
          (ranks - 1) *
              (cuts > 1 ? std::max(0.0, hop_s(segment_bytes, link) + sum_s - round_s) : sum_s));
}

}  // namespace patallreduce::algorithms
