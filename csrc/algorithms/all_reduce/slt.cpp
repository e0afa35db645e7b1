// Sorted linear tree: segments are summed down the chain of arrivals, so that whatever does not
// need the last rank is done before it comes; the sums go from the last rank to the first and
// down the chain again.
//
//   arrival order 2 0 3 1     2 -> 0 -> 3 -> 1     recv_reduce, every segment
//                             1 -> 2 -> 0 -> 3     recv
//
// Where ranks share nodes, those of one follow each other, and the last rank hands its result to
// the first rank of its own node, too: a segment enters every node once, and once more as a result.
//
//   messages   2(P-1) per segment; every rank but the last two sends the data twice
//   depth      2(P-1) hops, pipelined over segments; once the last rank of S segments has come,
//              S + P - 2 message times are left, a message being 1/S of the data
//   sum order  the arrival order: another prediction may change the bits
//   source     Proficz, J. Supercomput. 74 (2018), arXiv:1804.05349, section 4.1, Fig. 5
#include <algorithm>
#include <cstddef>

#include "algorithms/algorithms.h"
#include "algorithms/arrival_order.h"

namespace patallreduce::algorithms {

using schedule::Verb;

// All sums are written before all results, as in the paper. Messages of a pair keep program
// order: a result placed before a sum would make that sum wait for the last rank.
Steps slt(const Problem& problem, int rank) {
  if (problem.ranks == 1) return {};
  const ArrivalOrder order = arrival_order(problem, rank);
  const int id = order.id, last = problem.ranks - 1, its_first = order.first_ids[last];
  const bool also = id == last && its_first > 0 && its_first < last;
  Steps steps;
  for (int s = 0; s < problem.segments; ++s) {
    if (id > 0) steps.push_back({Verb::recv_reduce, order.previous(), s, s + 1});
    steps.push_back({Verb::send, order.next(), s, s + 1});  // the last rank's is a result
    if (also) steps.push_back({Verb::send, order.ranks[its_first], s, s + 1});
  }
  if (id == last) return steps;
  const std::int32_t from = id == its_first ? order.ranks[last] : order.previous();
  const bool hands_on = id + 1 < last && id + 1 != its_first;
  for (int s = 0; s < problem.segments; ++s) {
    steps.push_back({Verb::recv, from, s, s + 1});
    if (hands_on) steps.push_back({Verb::send, order.next(), s, s + 1});
  }
  return steps;
}

// Twice Hockney's number: consecutive messages overlap most of their latency, and what a segment
// really costs is nearer to a quarter of it (seen with 8 ranks and 4 MiB at 200 Mbit/s; no record
// of it is left). The model would cut finer still; the measurement would not.
std::int64_t slt_segments(int ranks, const Bucket& bucket, const Link& link) {
  return pipelined(4 * std::max(ranks - 2, 1), transfer_s(bucket, link), bucket, link);
}

std::vector<double> estimate_slt(const std::vector<double>& arrivals_s, int segments,
                                 double message_bytes, const Link& link) {
  const std::size_t ranks = arrivals_s.size();
  std::vector<double> finish_s(arrivals_s);
  if (ranks == 1) return finish_s;
  const double segment_bytes = message_bytes / segments;
  const double busy_s = link.port_share * link.latency_s + link.transfer_s(segment_bytes);
  const double flight_s = (1 - link.port_share) * link.latency_s;
  const double sum_s = segment_bytes / link.reduce_bytes_per_s;
  // Towards the last rank: when the first and the last segment are summed, when the port is free.
  std::vector<double> sent_s(ranks);
  double first_s = 0, done_s = 0;
  for (std::size_t id = 0; id < ranks; ++id) {
    if (id == 0) {
      first_s = done_s = arrivals_s[0];
    } else {
      first_s = std::max(arrivals_s[id], first_s + busy_s + flight_s) + sum_s;
      done_s = std::max(arrivals_s[id] + segments * sum_s, sent_s[id - 1] + flight_s + sum_s);
    }
    sent_s[id] = std::max(done_s + busy_s, first_s + segments * busy_s);
  }
  finish_s[ranks - 1] = done_s;
  // And from the last rank to the first and down the chain.
  double first_result_s = first_s, last_result_s = sent_s[ranks - 1] - busy_s;
  for (std::size_t id = 0; id + 1 < ranks; ++id) {
    if (id > 0) first_result_s = std::max(first_result_s, sent_s[id - 1]);  // its port is free
    first_result_s += busy_s + flight_s;
    last_result_s =
        std::max(last_result_s + busy_s + flight_s, first_result_s + (segments - 1) * busy_s);
    finish_s[id] = last_result_s;
  }
  return finish_s;
}

}  // namespace patallreduce::algorithms
