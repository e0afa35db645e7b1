// The stream programs of one rank that are made so far, by what is to run. Thread-safe.
#pragma once

#include <functional>
#include <memory>
#include <mutex>
#include <set>

#include "executor/programs.h"
#include "gpu/nccl/program.h"
#include "schedule/schedule_key.h"

namespace patallreduce::gpu {

using schedule::ScheduleKey;

class StreamPrograms {
 public:
  // All ranks' steps. Throws ScheduleError.
  using ScheduleOf = std::function<Schedule(const ScheduleKey& key, int ranks)>;

  StreamPrograms(ScheduleOf schedule_of, int rank, int ranks, int lanes);

  // scales: contributions are multiplied by a factor. Throws ScheduleError.
  std::shared_ptr<const StreamProgram> get(const ScheduleKey& key, bool scales);
  // Makes the programs of a key for what `expect` has announced so far.
  void prepare(const ScheduleKey& key);
  void expect(bool scales);

 private:
  const ScheduleOf schedule_of_;
  const int rank_, ranks_, lanes_;
  executor::KeptPrograms<StreamProgram, bool> kept_;  // by key, and whether they scale
  std::mutex mutex_;                                  // guards this
  std::set<bool> scales_;                             // that calls had
};

}  // namespace patallreduce::gpu
