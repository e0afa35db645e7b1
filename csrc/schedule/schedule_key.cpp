#include "schedule/schedule_key.h"

#include <sstream>

namespace patallreduce {

bool operator==(const ScheduleKey& a, const ScheduleKey& b) {
  return a.algorithm == b.algorithm && a.segments == b.segments && a.arrivals_s == b.arrivals_s &&
         a.segment_time_s == b.segment_time_s;
}

std::string describe(const ScheduleKey& key) {
  std::ostringstream text;
  text << key.algorithm << " with " << key.segments << " segments";
  if (!key.arrivals_s.empty()) {
    text << " and arrivals_s [";
    for (std::size_t i = 0; i < key.arrivals_s.size(); ++i)
      text << (i ? ", " : "") << key.arrivals_s[i];
    text << "]";
  }
  if (key.segment_time_s > 0) text << " and segment_time_s " << key.segment_time_s;
  return text.str();
}

}  // namespace patallreduce
