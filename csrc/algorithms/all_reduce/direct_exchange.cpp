// Direct exchange: every rank owns a share of the data, gets the others' values of it straight from
// them, and hands its sum straight to them. How large the shares are: shares.h.
//
//   P = 3, rank 2 late: rank 0 and 1 own half each     0 <-> 1     each other's half, recv_reduce
//                                                      2 -> 0, 1  a half each, recv_reduce
//                                                      0, 1 -> 2   the sums, recv; and 0 <-> 1
//
// All owners' segments are on their way at the same pace, so that sums leave while other segments
// still come in, and both directions of a port are in use.
//
//   messages   2 (P - 1) per segment, each rank's port carries 1 + (P - 2) x_i of the data
//   depth      2, however many ranks
//   sum order  the owner's value, then the others' as they arrive, together: downward from the
//              owner, modulo P; predictions change bits
//   source     reduce-scatter and all-gather by direct exchange: Chan, Heimlich, Purkayastha,
//              van de Geijn, Concurrency Computat. 19 (2007), section 4; the shares: ours
#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <numeric>
#include <utility>
#include <vector>

#include "algorithms/algorithms.h"
#include "algorithms/registry.h"
#include "algorithms/shares.h"

namespace patallreduce::algorithms {

using schedule::Verb;

namespace {

constexpr double most_cuts = 32;  // of a share

// By segment, its owner.
std::vector<int> owners_of(const std::vector<std::int32_t>& shares) {
  std::vector<int> owners;
  for (std::size_t rank = 0; rank < shares.size(); ++rank)
    owners.insert(owners.end(), std::size_t(shares[rank]), int(rank));
  return owners;
}

// The segments, owners in turn, by how much of its owner's share comes before.
std::vector<int> in_turn(const std::vector<std::int32_t>& shares) {
  std::vector<std::pair<std::int64_t, std::int64_t>> before;  // twice the middle, of the share
  for (const std::int32_t share : shares)
    for (std::int32_t i = 0; i < share; ++i) before.emplace_back(2 * i + 1, share);
  std::vector<int> order(before.size());
  std::iota(order.begin(), order.end(), 0);
  std::stable_sort(order.begin(), order.end(), [&](int a, int b) {
    return before[a].first * before[b].second < before[b].first * before[a].second;
  });
  return order;
}

}  // namespace

Steps direct_exchange(const Problem& problem, int rank) {
  const int ranks = problem.ranks;
  Steps steps;
  if (ranks == 1) return steps;
  const std::vector<std::int32_t> shares = algorithms::shares(problem);
  const std::vector<int> owners = owners_of(shares), order = in_turn(shares);
  const auto arrival_s = [&](int other) {
    return problem.arrivals_s.empty() ? 0 : problem.arrivals_s[std::size_t(other)];
  };
  std::vector<int> others;  // downward from this rank
  for (int distance = 1; distance < ranks; ++distance)
    others.push_back((rank + ranks - distance) % ranks);
  std::vector<int> as_they_arrive = others;
  std::stable_sort(as_they_arrive.begin(), as_they_arrive.end(),
                   [&](int a, int b) { return arrival_s(a) < arrival_s(b); });

  // Segments of different owners that are as far: first those of the ranks that follow this one, so
  // that no two ranks begin with the same.
  const auto owner = [&](int segment) { return owners[std::size_t(segment)]; };
  for (auto begin = order.begin(), end = begin; begin != order.end(); begin = end) {
    while (end != order.end() && (end == begin || owner(*end) > owner(*(end - 1)))) ++end;
    std::vector<int> row(begin, end);
    std::sort(row.begin(), row.end(), [&](int a, int b) {
      return (owner(a) + ranks - rank) % ranks < (owner(b) + ranks - rank) % ranks;
    });
    for (const int s : row)
      if (owner(s) != rank) steps.push_back({Verb::send, owner(s), s, s + 1});
    if (const int s = row.front(); owner(s) == rank) {
      for (const int other : as_they_arrive) steps.push_back({Verb::recv_reduce, other, s, s + 1});
      for (auto other = others.rbegin(); other != others.rend(); ++other)
        steps.push_back({Verb::send, *other, s, s + 1});
    }
    for (const int s : row)
      if (owner(s) != rank) steps.push_back({Verb::recv, owner(s), s, s + 1});
  }
  return steps;
}

// Filling and draining take two segments of a share; every one costs a rank 2 (P - 1) messages.
std::int64_t direct_exchange_segments(int ranks, const Bucket& bucket, const Link& link) {
  const double message_s = (ranks - 1) * link.port_share * link.latency_s;
  const double cuts = std::sqrt(transfer_s(bucket, link) / message_s);
  return in_parts(ranks, std::clamp(cuts, 1.0, most_cuts), bucket);
}

Counts direct_exchange_segments_to_price(int ranks, const Bucket& bucket, const Link& link) {
  return {direct_exchange_segments(ranks, bucket, link)};
}

// As shares.h has it, and what that leaves out: a port's share of every message's latency; where a
// port is in use without a break, the segments that fill and drain the pipeline; where ranks do not
// come together, a twentieth (simulated with shared ports, which were measured to be right to 4 %:
// tests/lab/test_simulated.py).
Flowed flow_direct_exchange(const std::vector<double>& expected_s,
                            const std::vector<double>& begins_s, int segments, double message_bytes,
                            const Link& link) {
  constexpr double apart = 1.05, fill = 1.5;
  const auto ranks = static_cast<double>(begins_s.size());
  const auto [first_s, last_s] = std::minmax_element(begins_s.begin(), begins_s.end());
  const double narrowest_s = link.transfer_s(message_bytes), unit_s = narrowest_s / link.widest();
  if (begins_s.size() < 2 || unit_s == 0) return {*last_s + 2 * link.latency_s, begins_s};
  const auto in_units = [&](std::vector<double> times_s) {
    for (double& at_s : times_s) at_s /= unit_s;
    return times_s;
  };
  const std::vector<std::int64_t> owned = Shares(in_units(expected_s), link.ports).earliest();
  const Shares real(in_units(begins_s), link.ports);
  const std::int64_t end = real.end(owned);
  const double cuts = std::max(segments / ranks, 1.0);
  const double after_s = *first_s + double(end) / Shares::unit * unit_s - *last_s;
  const double messages_s = 2 * (ranks - 1) * cuts * link.port_share * link.latency_s;
  const double filling_s = end == real.least_end() ? fill * narrowest_s / cuts : 0;
  Flowed flowed{*last_s + after_s * (*first_s < *last_s ? apart : 1) + messages_s + filling_s +
                    2 * link.latency_s,
                begins_s};
  const double sum = std::accumulate(owned.begin(), owned.end(), 0.0);
  for (std::size_t rank = 0; rank < owned.size(); ++rank) {
    const double slower =
        link.ports.empty()
            ? 1
            : double(*std::max_element(link.ports.begin(), link.ports.end())) / link.ports[rank];
    flowed.free_s[rank] +=
        (1 + (ranks - 2) * double(owned[rank]) / sum) * slower * unit_s + messages_s;
  }
  return flowed;
}

}  // namespace patallreduce::algorithms
