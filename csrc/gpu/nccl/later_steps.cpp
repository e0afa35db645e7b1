#include "gpu/nccl/later_steps.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "errors.h"
#include "schedule/print.h"

namespace patallreduce::gpu {

using schedule::Step;
using schedule::Verb;

LaterSteps::LaterSteps(const schedule::Schedule& schedule, int rank) {
  const schedule::Steps& steps = schedule.steps[rank];
  none_writes.assign(steps.size(), 0);
  some_sends.assign(steps.size(), 0);
  std::vector<char> written(schedule.problem.segments, 0), sent(schedule.problem.segments, 0);
  for (std::size_t i = steps.size(); i-- > 0;) {
    const Step& step = steps[i];
    if (step.verb == Verb::send) {
      std::fill(sent.begin() + step.first, sent.begin() + step.last, 1);
      continue;
    }
    int unwritten = 0;
    for (std::int32_t s = step.first; s < step.last; ++s) {
      unwritten += !written[s];
      some_sends[i] |= sent[s];
    }
    PATR_CHECK(unwritten == 0 || unwritten == step.last - step.first, ScheduleError,
               place(schedule, rank, i),
               ": is the last to write some of its segments and not others");
    none_writes[i] = unwritten > 0;
    std::fill(written.begin() + step.first, written.begin() + step.last, 1);
  }
}

}  // namespace patallreduce::gpu
