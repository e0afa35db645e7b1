#include "algorithms/times.h"

namespace patallreduce::algorithms {

namespace {

Times part(const Timed& timed, bool fills_ports) {
  if (timed.given_s) return {*timed.given_s};
  const Link link = timed.link();
  const double transfer_s = link.transfer_s(static_cast<double>(timed.message_bytes));
  return {link.latency_s + transfer_s / (fills_ports ? link.partners : 1) / timed.ranks};
}

}  // namespace

Times part_time(const Timed& timed) { return part(timed, false); }

Times part_time_of_full_ports(const Timed& timed) { return part(timed, true); }

Times round_times(const Timed& timed) {
  const Link link = timed.link();
  const auto segment_bytes =
      static_cast<double>(timed.message_bytes / static_cast<std::uint64_t>(timed.segments));
  const double sum_s = segment_bytes / link.reduce_bytes_per_s;
  return {link.latency_s + link.transfer_s(segment_bytes) + sum_s, link.latency_s, sum_s};
}

}  // namespace patallreduce::algorithms
