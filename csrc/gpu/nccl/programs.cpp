#include "gpu/nccl/programs.h"

#include <algorithm>
#include <utility>

namespace patallreduce::gpu {

namespace {

constexpr std::size_t most_kept = 256;

}  // namespace

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
  std::lock_guard lock(mutex_);
  const auto known = std::find_if(kept_.begin(), kept_.end(), [&](const Kept& kept) {
    return kept.scales == scales && kept.key == key;
  });
  if (known != kept_.end()) {
    kept_.splice(kept_.begin(), kept_, known);
    return kept_.front().program;
  }
  StreamProgramOptions options;
  options.scales = scales;
  // Who expects to be late has its result while it still sends, for a copy of what it sends.
  options.early_out = !key.arrivals_s.empty();
  // And takes in all that there is for it beforehand; ranks that arrive together need not.
  if (options.early_out) {
    options.lanes = lanes_;
    options.regions = std::max(options.regions, key.segments);
  }
  kept_.push_front({key, scales, compile(schedule_of_(key, ranks_), rank_, options)});
  if (kept_.size() > most_kept) kept_.pop_back();
  return kept_.front().program;
}

}  // namespace patallreduce::gpu
