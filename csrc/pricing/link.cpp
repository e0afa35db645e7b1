#include "pricing/link.h"

#include <algorithm>
#include <cmath>

#include "errors.h"
#include "schedule/schedule.h"

namespace patallreduce::pricing {

namespace {

constexpr double finest = 1000;  // width of the widest port

}  // namespace

double Link::transfer_s(double message_bytes) const {
  if (transfers_s.empty()) return message_bytes / bytes_per_s;
  const auto after = std::lower_bound(
      transfers_s.begin(), transfers_s.end(), message_bytes,
      [](const std::pair<double, double>& entry, double bytes) { return entry.first < bytes; });
  if (after == transfers_s.end()) {
    const auto& [bytes, seconds] = transfers_s.back();
    return seconds + (message_bytes - bytes) / bytes_per_s;
  }
  const auto [low_bytes, low_s] = after == transfers_s.begin() ? std::pair(0.0, 0.0) : *(after - 1);
  const auto [high_bytes, high_s] = *after;
  return low_s + (high_s - low_s) * (message_bytes - low_bytes) / (high_bytes - low_bytes);
}

double Link::widest() const {
  if (ports.empty()) return 1;
  const auto [narrowest, widest] = std::minmax_element(ports.begin(), ports.end());
  return double(*widest) / *narrowest;
}

void check_ports(const Link& link, int ranks) {
  PATR_CHECK(link.ports.empty() || link.ports.size() == std::size_t(ranks), ScheduleError,
             "link: expected one port for each of ", ranks, ", got ", link.ports.size());
}

std::vector<std::int32_t> port_widths(const std::vector<double>& bytes_per_s) {
  if (bytes_per_s.empty()) return {};
  const double widest = *std::max_element(bytes_per_s.begin(), bytes_per_s.end());
  std::vector<std::int32_t> widths;
  for (const double of_rank : bytes_per_s)
    widths.push_back(
        std::max(static_cast<std::int32_t>(std::lround(of_rank / widest * finest)), 1));
  const bool alike = std::count(widths.begin(), widths.end(), widths.front()) ==
                     static_cast<std::ptrdiff_t>(widths.size());
  return alike ? std::vector<std::int32_t>() : widths;
}

void check(const Link& link) {
  const auto require = [](const char* field, double value) {
    PATR_CHECK(std::isfinite(value) && value > 0, ScheduleError, "link: expected a finite ", field,
               " > 0, got ", value);
  };
  require("latency_s", link.latency_s);
  require("bytes_per_s", link.bytes_per_s);
  require("reduce_bytes_per_s", link.reduce_bytes_per_s);
  PATR_CHECK(link.port_share >= 0 && link.port_share <= 1, ScheduleError,
             "link: expected a port_share within 0..1, got ", link.port_share);
  PATR_CHECK(link.change_share >= 0 && link.change_share <= 1, ScheduleError,
             "link: expected a change_share within 0..1, got ", link.change_share);
  PATR_CHECK(std::isfinite(link.partners) && link.partners >= 1, ScheduleError,
             "link: expected partners >= 1, got ", link.partners);
  PATR_CHECK(std::isfinite(link.burst_bytes) && link.burst_bytes >= 0, ScheduleError,
             "link: expected burst_bytes >= 0, got ", link.burst_bytes);
  PATR_CHECK(link.processors >= 0, ScheduleError, "link: expected processors >= 0, got ",
             link.processors);
  double previous_bytes = 0;
  for (const auto& [bytes, seconds] : link.transfers_s) {
    require("size in transfers_s", bytes);
    require("time in transfers_s", seconds);
    PATR_CHECK(bytes > previous_bytes, ScheduleError,
               "link: expected ascending sizes in transfers_s, got ", bytes, " bytes after ",
               previous_bytes);
    previous_bytes = bytes;
  }
  for (const std::int32_t port : link.ports)
    PATR_CHECK(port >= 1 && port <= schedule::most_port_width, ScheduleError,
               "link: expected ports' widths in 1..", schedule::most_port_width, ", got ", port);
}

}  // namespace patallreduce::pricing
