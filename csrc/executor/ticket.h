// What the caller holds of an operation: its outcome and its times.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>

#include "executor/failure.h"
#include "schedule/schedule_key.h"

namespace patallreduce::executor {

using schedule::ScheduleKey;

struct Ticket {
  std::uint64_t seq = 0;
  // Written before `done` is released, read after it is acquired.
  std::shared_ptr<const Failure> failure;  // null: the result is in the caller's memory
  double arrival_s = 0;                    // steady clock, as are the others
  double finish_s = 0;
  ScheduleKey key;                   // what ran
  bool planned = false;              // by a plan
  int place = -1;                    // of this rank in a dynamic schedule: how many were before it
  std::atomic<double> drained_s{0};  // 0: still sending
  std::atomic<bool> done{false};
  std::atomic<bool> expected{false};  // the outbox is to have it once it is done
  std::atomic<bool> ready{true};      // false: called ahead, its contribution is not there yet
  std::shared_ptr<Ticket> next;       // in the outbox
  // Called once it is done, by whoever drives the engine: short, and without calling the engine.
  std::function<void()> on_done;  // set by submit
};

}  // namespace patallreduce::executor
