#include "schedule/needs.h"

#include <algorithm>

namespace patallreduce::schedule {

Needs needs_of(const Steps& steps, int segments) {
  const std::size_t count = steps.size();
  Needs needs;
  needs.arrival.assign(count, 0);
  needs.reads_own = needs.last_write = needs.sent_later = needs.result = needs.arrival;
  Written written(segments);
  for (std::size_t i = 0; i < count; ++i) {
    needs.reads_own[i] = steps[i].verb != Verb::recv && written.misses(steps[i]);
    if (steps[i].verb != Verb::send) written.add(steps[i]);
  }
  std::vector<char> sent(segments, 0), replaced(segments, 0);  // by a later step
  for (std::size_t i = count; i-- > 0;) {
    const Step& step = steps[i];
    std::int32_t last_writes = 0;
    for (std::int32_t s = step.first; s < step.last; ++s) {
      needs.sent_later[i] |= sent[s];
      last_writes += !replaced[s];
    }
    if (step.verb == Verb::send) {
      std::fill(sent.begin() + step.first, sent.begin() + step.last, 1);
      needs.result[i] = written.misses(step);
      needs.arrival[i] = needs.reads_own[i];
    } else {
      std::fill(replaced.begin() + step.first, replaced.begin() + step.last, 1);
      needs.result[i] = needs.last_write[i] = last_writes > 0;
      needs.arrival[i] = step.verb == Verb::recv_reduce || needs.last_write[i];
      if (needs.torn < 0 && last_writes > 0 && last_writes < step.last - step.first)
        needs.torn = static_cast<std::int32_t>(i);
    }
  }
  return needs;
}

}  // namespace patallreduce::schedule
