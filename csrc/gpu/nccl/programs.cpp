#include "gpu/nccl/programs.h"

#include <algorithm>
#include <utility>

namespace patallreduce::gpu {

StreamPrograms::StreamPrograms(ScheduleOf schedule_of, int rank, int ranks, int lanes)
    : schedule_of_(std::move(schedule_of)), rank_(rank), ranks_(ranks), lanes_(lanes) {}

void StreamPrograms::expect(bool scales) {
  std::lock_guard lock(mutex_);
  scales_.insert(scales);
}

void StreamPrograms::prepare(const ScheduleKey& key) {
  std::set<bool> scales;
  {
    std::lock_guard lock(mutex_);
    scales = scales_;
  }
  for (const bool scale : scales) get(key, scale);
}

std::shared_ptr<const StreamProgram> StreamPrograms::get(const ScheduleKey& key, bool scales) {
  return kept_.get(key, scales, [&] {
    StreamProgramOptions options;
    options.scales = scales;
    // Who expects to be late has its result while it still sends, for a copy of what it sends.
    options.early_out = !key.arrivals_s.empty();
    // And takes in all that there is for it beforehand; ranks that arrive together need not.
    if (options.early_out) {
      options.lanes = lanes_;
      options.regions = std::max(options.regions, key.segments);
    }
    return compile(schedule_of_(key, ranks_), rank_, options);
  });
}

}  // namespace patallreduce::gpu
