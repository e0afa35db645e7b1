// What a schedule is generated from. All ranks must use the same for one operation.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "schedule/schedule.h"
#include "wire.h"

namespace patallreduce::schedule {

// What a key that another rank sends may hold.
constexpr std::size_t max_name_bytes = 64;
constexpr int max_segments = 1 << 18;

// One rank's steps of a schedule that the caller gave: see executor/given.h.
struct GivenSteps {
  std::string collective;
  Steps steps;
  std::shared_ptr<const Schedule> whole;  // all ranks' steps
};

struct ScheduleKey {
  std::string algorithm;
  int segments = 1;
  std::vector<double> arrivals_s;  // empty: all equal
  double segment_time_s = 0;
  int root = -1;  // -1: the collective has none
  double latency_s = 0;
  double sum_s = 0;
  std::vector<std::int32_t> node_of = {}, ports = {};  // as in Problem
  // Null: `algorithm` generates them. Neither compared nor sent: `algorithm` has their hash.
  std::shared_ptr<const GivenSteps> given = nullptr;
};

bool operator==(const ScheduleKey& a, const ScheduleKey& b);
std::string describe(const ScheduleKey& key);

// before: of the bucket before, in a plan, both when it is written and read: what is the same is
// left out. Null: there is none.
void put(Writer& out, const ScheduleKey& key, const ScheduleKey* before = nullptr);
ScheduleKey get_key(Reader& in, int ranks, const ScheduleKey* before = nullptr);

}  // namespace patallreduce::schedule
