// One collective on its way into the executor's streams.
#pragma once

#include <algorithm>
#include <cstddef>
#include <vector>

#include "gpu/nccl/executor.h"

namespace patallreduce::gpu {

class StreamExecutor::Queueing {
 public:
  Queueing(StreamExecutor& executor, StreamTicket& ticket);
  void run();

 private:
  static constexpr std::size_t alignment = 256;  // of what lands in scratch: whole vectors

  std::size_t bytes(std::int32_t first, std::int32_t last) const {
    return offsets_[last] - offsets_[first];
  }
  std::byte* address(Memory memory, std::int32_t first) const;
  // Where the stage's receives land in its region; the last entry is how much they need together.
  std::vector<std::size_t> landings(const Stage& stage) const;
  std::byte* landing(const Stage& stage, std::int32_t receive) const;
  void* record(void* stream);
  // After the groups that `behind` names, as far as that is not known from `known` already.
  void wait_for_groups(void* stream, const Behind& behind, Behind& known);
  // What the collective before still sends from shadow, except in `lane`.
  void wait_for_shadow(void* stream, std::int32_t lane);
  void start(std::int32_t lane);
  void group(std::int32_t s, std::int32_t lane);
  void sum(std::int32_t s);
  void apply(const Stage& stage, const Apply& apply);
  void finish();

  StreamExecutor& executor_;
  const StreamDevice& device_;
  StreamTicket& ticket_;
  const StreamProgram& program_;
  const StreamCall& call_;
  const double scale_;
  std::vector<std::size_t> offsets_;
  std::size_t region_bytes_ = 0;
  std::vector<std::size_t> landings_;       // of the stage at hand
  std::vector<void*> summed_;               // [stage]: the event behind its sums, if awaited
  std::vector<std::vector<void*>> passed_;  // [lane][stage]: behind its group, if it has an event
  std::vector<std::int32_t> last_stage_;    // [lane] with messages; -1: none
  struct Waited {
    std::int32_t sums = -1;  // the stage whose sums it has waited for
    Behind groups;           // and groups
    bool started = false;
  };
  std::vector<Waited> lane_waited_;
  Behind sums_waited_;
};

}  // namespace patallreduce::gpu
