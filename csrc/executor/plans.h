// The plans that have come, per training loop: what planned calls are to run. From any thread.
#pragma once

#include <atomic>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>

#include "executor/call.h"
#include "executor/control.h"
#include "executor/stream_queue.h"
#include "schedule/plan.h"

namespace patallreduce::executor {

using schedule::Plan;

class Plans {
 public:
  // False: it is of an iteration after the last one that has a plan.
  bool keep(std::shared_ptr<const Plan> plan);
  // What a planned call is to run: null for its own schedule, no value while that is not known.
  // The plan lives as long as what is returned.
  std::optional<std::shared_ptr<const ScheduleKey>> key_for(const Call& call) const;
  // What would run if the call came now; empty: its plan is not here.
  std::string algorithm_now(const Call& call) const;

  // A planned call of this rank has arrived: earlier plans of its loop are of no use any more.
  void note_arrival(const Call& call, const std::shared_ptr<StreamQueue>& queue);
  // Who queued this loop's last call on streams; null: nobody.
  std::shared_ptr<StreamQueue> queue_of(std::int64_t loop) const;

  // This rank, the leader, makes no more: all ranks are to be told of it. False: ended before.
  bool end(const std::string& reason);
  // That, once: for who tells.
  std::optional<PlansEnd> untold_end();
  // The leader has told.
  void note_end(const PlansEnd& end);
  // Why there are no plans any more, if so.
  std::optional<std::string> ended() const;

 private:
  struct Loop {
    std::map<std::int64_t, std::shared_ptr<const Plan>> kept;  // by iteration
    std::int64_t newest = -1;
    std::int64_t arrived = -1;         // iteration of the last planned call that arrived here
    std::weak_ptr<StreamQueue> queue;  // of that call
  };

  bool is_after_end(std::int64_t loop, std::int64_t iteration) const;
  // Its plan; null: not here. And what that says of it; null: nothing.
  std::shared_ptr<const Plan> plan_of(const Call& call) const;

  mutable std::mutex mutex_;  // guards all
  std::map<std::int64_t, Loop> loops_;
  std::optional<PlansEnd> end_;
  std::atomic<bool> end_is_untold_{false};
};

}  // namespace patallreduce::executor
