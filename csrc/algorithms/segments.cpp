#include "algorithms/segments.h"

#include <algorithm>
#include <cmath>

namespace patallreduce::algorithms {

namespace {

// A segment should still be in a core's cache when it is summed and sent on.
constexpr double cache_bytes = 512 << 10;
// Where processors move messages, cutting whole ones hides nothing, and costs more than the cache.
constexpr double cache_of_all_bytes = 2 << 20;
// Below this, cutting costs more than it hides on any network.
constexpr double least_bytes = 8 << 10;

}  // namespace

std::int64_t pipelined(double stages, double moving_s, const Bucket& bucket, const Link& link) {
  const double bytes = static_cast<double>(bucket.bytes);
  const double wanted = std::sqrt(std::max(stages, 0.0) * moving_s / link.latency_s);
  const double most = std::max(std::floor(bytes / least_bytes), 1.0);
  return std::llrint(std::min(std::max(wanted, bytes / cache_bytes), most));
}

std::int64_t in_parts(int parts, double cuts, const Bucket& bucket) {
  const double part_bytes = static_cast<double>(bucket.bytes) / parts;
  // A part that fits the cache as a whole needs no cuts.
  if (part_bytes > 4 * cache_bytes) cuts = std::max(cuts, part_bytes / cache_bytes);
  return parts * std::max(std::llrint(std::min(cuts, part_bytes / least_bytes)), 1LL);
}

std::int64_t whole_segments(int, const Bucket& bucket, const Link& link) {
  const double most_bytes = link.processors > 0 ? cache_of_all_bytes : cache_bytes;
  return std::llrint(std::ceil(static_cast<double>(bucket.bytes) / most_bytes));
}

double ring_cuts(int parts, const Bucket& bucket, const Link& link) {
  return std::min(std::sqrt(transfer_s(bucket, link) / parts / link.latency_s / 5), 8.0);
}

}  // namespace patallreduce::algorithms
