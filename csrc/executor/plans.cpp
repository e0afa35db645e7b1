#include "executor/plans.h"

#include <algorithm>

namespace patallreduce::executor {

using schedule::PlannedBucket;

namespace {

// What a plan says of a call; null: nothing.
const ScheduleKey* named(const Plan& plan, const Call& call) {
  const auto index = static_cast<std::size_t>(call.label);
  if (index >= plan.buckets.size()) return nullptr;
  const PlannedBucket& bucket = plan.buckets[index];
  const bool same = bucket.elements == call.count && bucket.element_bytes == size_of(call.dtype);
  return same ? &bucket.key : nullptr;
}

}  // namespace

bool Plans::keep(std::shared_ptr<const Plan> plan) {
  std::lock_guard lock(mutex_);
  if (is_after_end(plan->loop, plan->iteration)) return false;
  Loop& loop = loops_[plan->loop];
  const std::int64_t iteration = plan->iteration;
  loop.newest = std::max(loop.newest, iteration);
  // A rank can be as many iterations ahead of this one as it has asynchronous calls in flight.
  if (iteration >= loop.arrived) loop.kept[iteration] = std::move(plan);
  return true;
}

bool Plans::is_after_end(std::int64_t loop, std::int64_t iteration) const {
  if (!end_) return false;
  const auto last = std::find_if(end_->last.begin(), end_->last.end(),
                                 [&](const auto& entry) { return entry.first == loop; });
  return last == end_->last.end() || iteration > last->second;
}

std::shared_ptr<const Plan> Plans::plan_of(const Call& call) const {
  const auto loop = loops_.find(call.loop);
  if (loop == loops_.end()) return nullptr;
  const auto plan = loop->second.kept.find(call.iteration);
  return plan == loop->second.kept.end() ? nullptr : plan->second;
}

std::optional<std::shared_ptr<const ScheduleKey>> Plans::key_for(const Call& call) const {
  std::lock_guard lock(mutex_);
  if (const auto plan = plan_of(call))
    return std::shared_ptr<const ScheduleKey>(plan, named(*plan, call));
  if (!is_after_end(call.loop, call.iteration)) return std::nullopt;
  return nullptr;
}

std::string Plans::algorithm_now(const Call& call) const {
  if (!call.planned()) return call.key.algorithm;
  std::lock_guard lock(mutex_);
  const auto plan = plan_of(call);
  if (!plan) return "";
  const ScheduleKey* key = named(*plan, call);
  return key ? key->algorithm : call.key.algorithm;
}

void Plans::note_arrival(const Call& call, const std::shared_ptr<StreamQueue>& queue) {
  std::lock_guard lock(mutex_);
  Loop& loop = loops_[call.loop];
  loop.arrived = call.iteration;
  loop.queue = queue;
  loop.kept.erase(loop.kept.begin(), loop.kept.lower_bound(loop.arrived));
}

std::shared_ptr<StreamQueue> Plans::queue_of(std::int64_t loop) const {
  std::lock_guard lock(mutex_);
  const auto found = loops_.find(loop);
  return found == loops_.end() ? nullptr : found->second.queue.lock();
}

bool Plans::end(const std::string& reason) {
  std::lock_guard lock(mutex_);
  if (end_) return false;
  end_ = PlansEnd{reason, {}};
  for (const auto& [number, loop] : loops_)
    if (loop.newest >= 0) end_->last.emplace_back(number, loop.newest);
  end_is_untold_ = true;
  return true;
}

std::optional<PlansEnd> Plans::untold_end() {
  if (!end_is_untold_) return std::nullopt;
  end_is_untold_ = false;
  std::lock_guard lock(mutex_);
  return end_;
}

void Plans::note_end(const PlansEnd& end) {
  std::lock_guard lock(mutex_);
  if (!end_) end_ = end;
}

std::optional<std::string> Plans::ended() const {
  std::lock_guard lock(mutex_);
  if (!end_) return std::nullopt;
  return end_->reason;
}

}  // namespace patallreduce::executor
