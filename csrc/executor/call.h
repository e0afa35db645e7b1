// What a rank asks for in one collective: must be the same on every rank.
#pragma once

#include <cstdint>
#include <string>

#include "executor/program.h"
#include "reduction/reduction.h"

namespace patallreduce::executor {

using reduction::Dtype;
using reduction::Op;
using reduction::size_of;

// Labels that are no bucket's.
constexpr std::int64_t no_label = -1;
constexpr std::int64_t tree_label = -2;  // a round of tree_sum/: not to be mistaken for others

// Whose memory the elements are in, and who moves them.
enum class Carrier : std::uint8_t {
  host,     // the processor's, by the transport
  device,   // a GPU's, by the transport, which knows such memory
  streams,  // a GPU's, by gpu/: the engine compares the calls and has the work queued
};

const char* name(Carrier carrier);
// The inverse of `name`. Throws std::invalid_argument listing the known names.
Carrier find_carrier(const std::string& name);

struct Call {
  std::uint64_t count = 0;  // elements
  Carrier carrier = Carrier::host;
  Dtype dtype = Dtype::float32;
  Op op = Op::sum;
  std::int64_t label = no_label;  // the caller's name for it: DDP's bucket index
  // Planned: `key` is replaced by what the plan of this loop's iteration says of bucket `label`,
  // if it says something of a bucket of this size.
  std::int64_t loop = -1;  // a training loop's number; -1: not planned
  std::int64_t iteration = -1;
  ScheduleKey key;

  bool planned() const { return loop >= 0; }
  std::uint64_t bytes() const { return count * size_of(dtype); }
};

// Equal but for the key.
bool same_demand(const Call& a, const Call& b);
bool operator==(const Call& a, const Call& b);
std::string describe(const Call& call);
// A hash of everything in it.
std::uint64_t hash(const Call& call);

}  // namespace patallreduce::executor
