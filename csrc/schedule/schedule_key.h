// What a schedule is generated from. All ranks must use the same for one operation.
#pragma once

#include <string>
#include <vector>

#include "wire.h"

namespace patallreduce {

struct ScheduleKey {
  std::string algorithm;
  int segments = 1;
  std::vector<double> arrivals_s;  // empty: all equal
  double segment_time_s = 0;
  int root = -1;  // -1: the collective has none
  double latency_s = 0;
  double sum_s = 0;
};

bool operator==(const ScheduleKey& a, const ScheduleKey& b);
std::string describe(const ScheduleKey& key);

void put(Writer& out, const ScheduleKey& key);
ScheduleKey get_key(Reader& in, int ranks);

}  // namespace patallreduce
