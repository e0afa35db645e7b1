// A schedule made while it is used: one rank's steps at a time, in blocks.
//
// Whole schedules grow with ranks times steps: a ring of 10,000 ranks has 4 * 10^8 steps. Whoever
// runs through them in order needs only those that are near.
#pragma once

#include <utility>

#include "schedule/schedule.h"

namespace patallreduce::schedule {

class StepSource {
 public:
  explicit StepSource(Problem problem) : problem_(std::move(problem)) {}
  virtual ~StepSource() = default;

  const Problem& problem() const { return problem_; }

  // How many blocks each rank's steps come in. Several only where a send's segments were received
  // in its own block or the one before, but for those of the first block: as in rounds.
  virtual int blocks() const { return 1; }

  // Appends block `block` of the rank's steps; the blocks in order are its steps in program order.
  virtual void append(int rank, int block, Steps& steps) const = 0;

 private:
  Problem problem_;
};

// What is there already; `schedule` must outlive it.
class StoredSteps : public StepSource {
 public:
  explicit StoredSteps(const Schedule& schedule)
      : StepSource(schedule.problem), schedule_(schedule) {}

  void append(int rank, int, Steps& steps) const override {
    const Steps& all = schedule_.steps[rank];
    steps.insert(steps.end(), all.begin(), all.end());
  }

 private:
  const Schedule& schedule_;
};

}  // namespace patallreduce::schedule
