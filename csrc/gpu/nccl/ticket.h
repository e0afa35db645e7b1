// One collective on a GPU's streams, as its executor knows it.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <vector>

#include "gpu/nccl/program.h"
#include "reduction/reduction.h"

namespace patallreduce::gpu {

using reduction::Dtype;
using reduction::Op;

struct StreamCall {
  void* home = nullptr;  // this rank's contribution, and where the result goes; of the device
  std::uint64_t count = 0;
  Dtype dtype = Dtype::float32;
  Op op = Op::sum;
  void* producer = nullptr;  // the stream that makes the contribution
  double timeout_s = 0;      // from submit() until nothing of the collective is left

  // Whether the contribution is multiplied by a factor before it is summed.
  bool scales() const { return op == Op::avg && is_floating(dtype); }
};

// Belongs to its executor.
struct StreamTicket {
  StreamCall call;
  std::shared_ptr<const StreamProgram> program;
  std::uint64_t number = 0;
  double deadline_s = 0;
  bool queued = false;
  bool has_result = false;  // seen on the host, before any failure
  bool drained = false;     // nothing of it is left on the GPU, and its events are not its any more
  // When the contribution and the result were seen to be there; 0: not yet.
  std::atomic<double> arrival_s{0}, finish_s{0};

  // Events, the last two null until queued.
  void* arrival = nullptr;
  void* result = nullptr;
  void* sums_end = nullptr;  // behind all its sums
  struct GroupEnd {
    std::int32_t lane, stage;
    void* event;  // behind that group
  };
  std::vector<GroupEnd> group_ends;  // in the order of the stages; not every group has an event
  std::vector<void*> lane_ends;      // [lane]: behind its last group, null: it has none
  std::vector<void*> events;         // all of them
};

}  // namespace patallreduce::gpu
