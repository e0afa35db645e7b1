// What a schedule is generated from. All ranks must use the same for one operation.
#pragma once

#include <string>
#include <vector>

namespace patallreduce {

struct ScheduleKey {
  std::string algorithm;
  int segments = 1;
  std::vector<double> arrivals_s;  // empty: all equal
  double segment_time_s = 0;
};

bool operator==(const ScheduleKey& a, const ScheduleKey& b);
std::string describe(const ScheduleKey& key);

}  // namespace patallreduce
