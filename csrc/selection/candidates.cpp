// The rules for segments are those of patallreduce/selection.py, which says where they are from.
#include "selection/candidates.h"

#include <algorithm>
#include <cmath>
#include <string>

#include "algorithms/registry.h"
#include "selection/estimate.h"

namespace patallreduce::selection {

using algorithms::Algorithm;
using algorithms::algorithms;
using pricing::Link;

namespace {

constexpr double cache_bytes = 512 << 10;
constexpr double least_bytes = 8 << 10;
// Four steps a segment and rank: the executor's tags number 2^18.
constexpr double most_segments = 60000;

int within(double segments, const Bucket& bucket) {
  const double most = static_cast<double>(std::max<std::uint64_t>(bucket.elements, 1));
  return static_cast<int>(std::clamp(std::nearbyint(segments), 1.0, std::min(most, most_segments)));
}

std::vector<int> distinct(std::vector<int> counts) {
  std::sort(counts.begin(), counts.end());
  counts.erase(std::unique(counts.begin(), counts.end()), counts.end());
  return counts;
}

// P parts, whole and cut.
std::vector<int> ring_segments(int ranks, const Bucket& bucket, const Link& link) {
  const double message_bytes = static_cast<double>(bucket.bytes());
  const double part_bytes = message_bytes / ranks;
  double cuts = std::min(link.transfer_s(message_bytes) / ranks / link.latency_s / 50, 8.0);
  if (part_bytes > 4 * cache_bytes) cuts = std::max(cuts, part_bytes / cache_bytes);
  cuts = std::max(std::nearbyint(std::min(cuts, part_bytes / least_bytes)), 1.0);
  return distinct({within(ranks, bucket), within(ranks * cuts, bucket)});
}

// Hockney's optimum, and twice as many, since latencies overlap. The model would cut finer still;
// the measurement would not.
std::vector<int> chain_segments(int ranks, const Bucket& bucket, const Link& link) {
  const double message_bytes = static_cast<double>(bucket.bytes());
  const double root =
      std::sqrt(std::max(ranks - 2, 1) * link.transfer_s(message_bytes) / link.latency_s);
  std::vector<int> counts;
  for (const double wanted : {root, 2 * root}) {
    const double most = std::max(std::floor(message_bytes / least_bytes), 1.0);
    counts.push_back(within(std::min(std::max(wanted, message_bytes / cache_bytes), most), bucket));
  }
  return distinct(counts);
}

std::vector<int> one_segment(int, const Bucket&, const Link&) { return {1}; }

std::vector<int> halving_segments(int ranks, const Bucket& bucket, const Link&) {
  int power = 1;
  while (2 * power <= ranks) power *= 2;
  return {within(power, bucket)};
}

std::vector<Candidate> registered(const std::vector<Candidate>& all) {
  std::vector<Candidate> found;
  for (const Candidate& candidate : all) {
    for (const Algorithm& algorithm : algorithms()) {
      if (candidate.algorithm == std::string(algorithm.name)) found.push_back(candidate);
    }
  }
  return found;
}

}  // namespace

const std::vector<Candidate>& candidates() {
  static const std::vector<Candidate> known = registered({
      {"ring", Uses::nothing, ring_segments, estimate_ring},
      {"recursive_doubling", Uses::nothing, one_segment, estimate_doubling},
      {"rabenseifner", Uses::nothing, halving_segments, estimate_halving},
      {"slt", Uses::order, chain_segments, estimate_chain},
      {"slt_dynamic", Uses::real_order, chain_segments, estimate_chain},
      {"prr", Uses::times, ring_segments, nullptr},
  });
  return known;
}

}  // namespace patallreduce::selection
