// Messages that carry one segment each, so that whatever comes next is pipelined by segment.
#pragma once

#include <algorithm>

#include "schedule/parts.h"
#include "schedule/schedule.h"

namespace patallreduce::algorithms {

using schedule::Part;
using schedule::Steps;
using schedule::Verb;

inline void pass(Steps& steps, Verb verb, int peer, Part range, int round = -1) {
  for (int s = range.first; s < range.last; ++s) steps.push_back({verb, peer, s, s + 1, round});
}

// Sends `out` and takes `in`, alternating, so that an executor that posts in program order keeps
// both directions busy. Where the ranges overlap, what leaves is what was held before.
inline void exchange(Steps& steps, int to, Part out, Verb take, int from, Part in, int round) {
  const int sent = out.last - out.first, taken = in.last - in.first;
  for (int i = 0; i < std::max(sent, taken); ++i) {
    if (i < sent) pass(steps, Verb::send, to, {out.first + i, out.first + i + 1}, round);
    if (i < taken) pass(steps, take, from, {in.first + i, in.first + i + 1}, round);
  }
}

}  // namespace patallreduce::algorithms
