// How many segments a message is cut into, by the way its pieces take. Rules of single algorithms
// stand in their files and build on these.
//
//   pipelined   a segment follows another along a chain or down a tree: Hockney's best number is
//               sqrt(stages * moving_s / latency), where filling the pipeline costs as much as the
//               latencies of all segments
//   in parts    ranks work on parts of the data, each of which may be cut
//   whole       every message is the whole data: cut for the cache only. A binomial tree gains
//               nothing from segments (section 4.3.4)
//
// All: small enough for the cache, not smaller than is worth a message.
//
//   source  Pjesivac-Grbovic, PhD thesis, Tennessee (2007), section 4, Table 5.1
#pragma once

#include <algorithm>
#include <cstdint>

#include "pricing/link.h"

namespace patallreduce::algorithms {

using pricing::Link;

// What is to be reduced, or moved.
struct Bucket {
  std::uint64_t bytes;
  std::uint64_t elements;
};

// Of what a rested port does not let through at once.
inline double transfer_s(const Bucket& bucket, const Link& link) {
  return link.transfer_s(std::max(static_cast<double>(bucket.bytes) - link.burst_bytes, 0.0));
}

// moving_s: to transfer the whole message, and to sum it where that counts.
std::int64_t pipelined(double stages, double moving_s, const Bucket& bucket, const Link& link);
std::int64_t in_parts(int parts, double cuts, const Bucket& bucket);
std::int64_t whole_segments(int ranks, const Bucket& bucket, const Link& link);

// Of each of so many parts that go round a ring: as many as hide the latency of a round, and let
// what other collectives send pass in between, but not so many that what a message costs counts.
// Three to eight are alike on a slow network, and one is 6 % slower there, in a job with several
// buckets (benchmarks/results/training_segments.jsonl). By the root, since no two measurements of
// the latency agree: at 4 times the latency there are half as many cuts.
double ring_cuts(int parts, const Bucket& bucket, const Link& link);

}  // namespace patallreduce::algorithms
