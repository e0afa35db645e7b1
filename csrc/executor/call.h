// What a rank asks for in one collective: must be the same on every rank.
#pragma once

#include <cstdint>
#include <string>

#include "executor/program.h"
#include "reduction/reduction.h"

namespace patallreduce {

struct Call {
  std::uint64_t count = 0;  // elements
  Dtype dtype = Dtype::float32;
  Op op = Op::sum;
  std::int64_t label = -1;  // the caller's name for it: DDP's bucket index
  ScheduleKey key;

  std::uint64_t bytes() const { return count * size_of(dtype); }
};

bool operator==(const Call& a, const Call& b);
std::string describe(const Call& call);
// A hash of everything in it.
std::uint64_t hash(const Call& call);

}  // namespace patallreduce
