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
// Where ranks share nodes, nodes own shares, and their ranks the segments of these in turn. A
// segment is summed within each node, from rank to rank in order of arrival, before it leaves for
// its owner; its sum comes to one rank of each node, which hands it to the others there.
//
//   messages   2 (P - 1) per segment, of these 2 (N - 1) between N nodes; each port carries
//              1 + (N - 2) x_i of the data
//   depth      2, however many ranks; within a node, its ranks
//   sum order  the owner's value, then the others' as they arrive, together: downward from the
//              owner, modulo N; predictions change bits
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

struct Segment {
  int number, node;    // its owner's
  std::int64_t place;  // in the node's share
};

// Owners in turn, by how much of the share comes before.
std::vector<Segment> in_turn(const std::vector<std::int32_t>& shares) {
  std::vector<Segment> segments;
  for (std::size_t node = 0; node < shares.size(); ++node)
    for (std::int32_t place = 0; place < shares[node]; ++place)
      segments.push_back({int(segments.size()), int(node), place});
  std::stable_sort(segments.begin(), segments.end(), [&](const Segment& a, const Segment& b) {
    return (2 * a.place + 1) * shares[std::size_t(b.node)] <
           (2 * b.place + 1) * shares[std::size_t(a.node)];
  });
  return segments;
}

// One rank's part.
class Exchange {
 public:
  Exchange(const Problem& problem, int rank)
      : owners_(owners(problem)),
        rank_(rank),
        nodes_(int(owners_.members.size())),
        node_(owners_.node_of[std::size_t(rank)]) {
    for (int distance = 1; distance < nodes_; ++distance)
      as_they_arrive_.push_back((node_ + nodes_ - distance) % nodes_);
    std::stable_sort(as_they_arrive_.begin(), as_they_arrive_.end(), [&](int a, int b) {
      return owners_.arrivals_s[std::size_t(a)] < owners_.arrivals_s[std::size_t(b)];
    });
  }

  // Segments of different nodes that are as far: first those of the nodes that follow this one, so
  // that no two begin with the same.
  Steps steps() {
    const std::vector<Segment> segments = in_turn(owners_.shares);
    for (auto begin = segments.begin(), end = begin; begin != segments.end(); begin = end) {
      while (end != segments.end() && (end == begin || end->node > (end - 1)->node)) ++end;
      std::vector<Segment> row(begin, end);
      std::sort(row.begin(), row.end(), [&](const Segment& a, const Segment& b) {
        return distance(a.node) < distance(b.node);
      });
      const bool owns = row.front().node == node_;
      for (auto other = row.begin() + owns; other != row.end(); ++other) give(*other);
      if (owns && owner(row.front()) == rank_) {
        sum(row.front());
      } else if (owns) {
        give(row.front());
        get(row.front());
      }
      for (auto other = row.begin() + owns; other != row.end(); ++other) get(*other);
    }
    return std::move(steps_);
  }

 private:
  const std::vector<std::int32_t>& members(int node) const {
    return owners_.members[std::size_t(node)];
  }
  int distance(int node) const { return (node + nodes_ - node_) % nodes_; }
  // Of that node the rank that has to do with it first, or alone.
  int in_charge(const Segment& segment, int node) const {
    return members(node)[std::size_t(segment.place) % members(node).size()];
  }
  int owner(const Segment& segment) const { return in_charge(segment, segment.node); }

  void step(Verb verb, int peer, const Segment& segment) {
    steps_.push_back({verb, peer, segment.number, segment.number + 1});
  }

  void give(const Segment& segment) {
    std::vector<std::int32_t> chain = members(node_);
    if (segment.node == node_) chain.erase(std::find(chain.begin(), chain.end(), owner(segment)));
    const auto own = std::find(chain.begin(), chain.end(), rank_);
    if (own != chain.begin()) step(Verb::recv_reduce, *(own - 1), segment);
    step(Verb::send, own + 1 == chain.end() ? owner(segment) : *(own + 1), segment);
  }

  void sum(const Segment& segment) {
    std::vector<std::int32_t> mates = members(node_);
    mates.erase(std::find(mates.begin(), mates.end(), rank_));
    if (!mates.empty()) step(Verb::recv_reduce, mates.back(), segment);
    for (const int other : as_they_arrive_) step(Verb::recv_reduce, members(other).back(), segment);
    for (int other = 1; other < nodes_; ++other)
      step(Verb::send, in_charge(segment, (node_ + other) % nodes_), segment);
    for (const std::int32_t mate : mates) step(Verb::send, mate, segment);
  }

  void get(const Segment& segment) {
    const int here = in_charge(segment, node_);
    const bool at_first = segment.node != node_ && here == rank_;
    step(Verb::recv, at_first ? owner(segment) : here, segment);
    for (const std::int32_t mate : members(node_))
      if (at_first && mate != rank_) step(Verb::send, mate, segment);
  }

  const Owners owners_;
  const int rank_, nodes_, node_;
  std::vector<int> as_they_arrive_;  // the other nodes
  Steps steps_;
};

}  // namespace

Steps direct_exchange(const Problem& problem, int rank) {
  return problem.ranks == 1 ? Steps() : Exchange(problem, rank).steps();
}

// Filling and draining take two segments of a share; every one costs a rank 2 (P - 1) messages.
// Where processors move messages, they are at work meanwhile: cutting hides nothing.
std::int64_t direct_exchange_segments(int ranks, const Bucket& bucket, const Link& link) {
  if (link.processors > 0) return in_parts(ranks, 1, bucket);
  const double message_s = (ranks - 1) * link.port_share * link.latency_s;
  const double cuts = std::sqrt(transfer_s(bucket, link) / link.partners / message_s);
  return in_parts(ranks, std::clamp(cuts, 1.0, most_cuts), bucket);
}

// As shares.h has it, and what that leaves out: a port's share of every message's latency, and what
// changing partners takes longer than the message; the segments that fill and drain the pipeline,
// which hide where ports pause, all but a quarter of one (how near that comes to simulated ports:
// tests/selection/test_flows.py). Ports are in use until a latency before the end; and the last
// sums are two behind the last values.
Finishes flow_direct_exchange(const std::vector<double>& expected_s, FlowingPorts& ports,
                              int segments, double message_bytes, const Link& link) {
  auto& [values_until_s, all_until_s] = ports;
  const auto ranks = static_cast<double>(expected_s.size());
  const auto [first, last] = std::minmax_element(all_until_s.begin(), all_until_s.end());
  const double first_s = *first, last_s = *last;
  const double partners = std::min(link.partners, std::max(ranks - 1, 1.0));
  if (expected_s.size() < 2) return Finishes(expected_s.size(), last_s);
  const double unit_s = link.transfer_s(std::max(message_bytes, 1.0)) / link.widest() / partners;
  const auto in_units = [&](std::vector<double> times_s) {
    for (double& at_s : times_s) at_s /= unit_s;
    return times_s;
  };
  const Shares expected(in_units(expected_s), link.ports);
  const std::vector<std::int64_t> owned = expected.earliest(segments);
  Finishes finish_s = Shares(in_units(all_until_s), link.ports).ends(owned, partners);
  const double cuts = std::max(segments / ranks, 1.0);
  const double segment_transfer_s = unit_s * partners / (ranks * cuts);
  const double change_s = std::max(link.change_share * link.latency_s - segment_transfer_s, 0.0);
  const double messages_s = (ranks - 1) * cuts * (link.port_share * link.latency_s + change_s);
  double last_values_s = -HUGE_VAL, last_sums_s = 0;
  const double sum = std::accumulate(owned.begin(), owned.end(), 0.0);
  for (std::size_t rank = 0; rank < owned.size(); ++rank) {
    const double share = double(owned[rank]) / sum;
    const double port_s =
        link.ports.empty()
            ? unit_s
            : unit_s * *std::max_element(link.ports.begin(), link.ports.end()) / link.ports[rank];
    const double values_s = (1 - share) * port_s + messages_s;
    const double sums_s = (ranks - 1) * share * port_s + messages_s;
    values_until_s[rank] += values_s;
    all_until_s[rank] += values_s + sums_s;
    last_values_s = std::max(last_values_s, values_until_s[rank]);
    last_sums_s = std::max({last_sums_s, sums_s, values_s});
  }
  const double segment_s = last_sums_s / cuts;
  const double fill_s = first_s < last_s ? segment_s / 4 : 0;
  const double at_least_s = last_values_s + segment_s + 2 * link.latency_s;
  for (double& at_s : finish_s)
    at_s = std::max(first_s + at_s * unit_s + 2 * messages_s + fill_s + link.latency_s, at_least_s);
  return finish_s;
}

}  // namespace patallreduce::algorithms
