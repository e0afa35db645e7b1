#include "algorithms/times.h"

namespace patallreduce::algorithms {

Times part_time(const Timed& timed) {
  if (timed.given_s) return {*timed.given_s};
  const Link link = timed.link();
  return {link.latency_s + link.transfer_s(static_cast<double>(timed.message_bytes)) / timed.ranks};
}

Times part_time_of_full_ports(const Timed& timed) {
  if (timed.given_s) return {*timed.given_s};
  const Link link = timed.link();
  const double transfer_s = link.transfer_s(static_cast<double>(timed.message_bytes));
  return {link.latency_s + transfer_s / link.partners / timed.ranks};
}

Times round_times(const Timed& timed) {
  const Link link = timed.link();
  const auto segment_bytes =
      static_cast<double>(timed.message_bytes / static_cast<std::uint64_t>(timed.segments));
  const double sum_s = segment_bytes / link.reduce_bytes_per_s;
  return {link.latency_s + link.transfer_s(segment_bytes) + sum_s, link.latency_s, sum_s};
}

}  // namespace patallreduce::algorithms
