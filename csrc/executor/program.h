// One rank's steps, prepared once for execution and shared by every operation that runs them.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "schedule/order.h"
#include "schedule/schedule.h"
#include "schedule/schedule_key.h"

namespace patallreduce::executor {

using schedule::Order;
using schedule::ScheduleKey;
using schedule::Steps;

// Who ends with the result. Elsewhere is the rank of a reduce that is not its root: it only lends
// its contribution, and its memory is never written.
enum class Result : std::uint8_t { everywhere, here, elsewhere };

// Steps are numbered in tags: see operation.cpp.
constexpr int message_bits = 18;

struct Program {
  Steps steps;
  int segments;
  Result result;
  int blocks;  // of an all-gather or reduce-scatter one per rank, whose borders are exact; else 1
  Order order;
  // Per step.
  std::vector<char> sent_later;        // a later step sends one of its segments
  std::vector<char> last_write;        // it is the last to write its segments: it makes the result
  std::vector<char> needed;            // the result waits for it; elsewhere: it reads the caller's
  std::vector<int> touches;            // per segment: how many steps touch it
  std::vector<int> send_peers;         // ranks this one sends to
  std::vector<std::int32_t> recvs;     // the steps that receive, in program order
  std::vector<std::int32_t> starters;  // the steps that wait for none
  int needed_count = 0;
};

// Throws ScheduleError for steps that the executor cannot do.
// collective: one of schedule/verify.h.
std::shared_ptr<const Program> compile(Steps steps, int segments, const std::string& collective,
                                       int ranks, bool is_root);

// Where schedules come from: the executor knows no algorithm.
struct StepsSource {
  // A rank's steps; throws ScheduleError. Of a dynamic schedule: those of a place in the order of
  // arrival, with places for peers.
  std::function<Steps(const ScheduleKey&, int ranks, int rank)> steps;
  // Whether ranks take their places as they arrive; false for keys that steps() refuses.
  std::function<bool(const ScheduleKey&)> dynamic;
  // What it is for, one of schedule/verify.h.
  std::function<std::string(const ScheduleKey&)> collective;
};

}  // namespace patallreduce::executor
