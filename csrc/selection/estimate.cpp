#include "selection/estimate.h"

#include <algorithm>
#include <cstddef>

namespace patallreduce::selection {

using pricing::Link;

namespace {

double hop_s(double bytes, const Link& link) { return link.latency_s + link.transfer_s(bytes); }

std::vector<double> all_after_the_last(const std::vector<double>& arrivals_s, double after_s) {
  const double last_s = *std::max_element(arrivals_s.begin(), arrivals_s.end());
  return std::vector<double>(arrivals_s.size(), last_s + after_s);
}

// The largest power of two up to `ranks`, as its logarithm.
int floor_log2(std::size_t ranks) {
  int power = 0;
  while (ranks >>= 1) ++power;
  return power;
}

}  // namespace

std::vector<double> estimate_ring(const std::vector<double>& arrivals_s, int segments,
                                  double message_bytes, const Link& link) {
  const double ranks = static_cast<double>(arrivals_s.size());
  const double part_bytes = message_bytes / ranks;
  const double cuts = std::max(segments / ranks, 1.0);
  const double segment_bytes = part_bytes / cuts;
  // A round takes the part through the port, or one segment's way, whichever is longer.
  const double port_s = cuts * (link.port_share * link.latency_s + link.transfer_s(segment_bytes));
  const double sum_s = segment_bytes / link.reduce_bytes_per_s;
  const double round_s = std::max(port_s, hop_s(segment_bytes, link));
  return all_after_the_last(
      arrivals_s,
      2 * (ranks - 1) * round_s +
          (ranks - 1) *
              (cuts > 1 ? std::max(0.0, hop_s(segment_bytes, link) + sum_s - round_s) : sum_s));
}

std::vector<double> estimate_doubling(const std::vector<double>& arrivals_s, int,
                                      double message_bytes, const Link& link) {
  const std::size_t ranks = arrivals_s.size();
  const int rounds = floor_log2(ranks);
  const double exchange_s = hop_s(message_bytes, link) + message_bytes / link.reduce_bytes_per_s;
  // The ranks beyond the power of two hand theirs over first and are told last; and those that need
  // not wait for them send ahead, into ports that still need another message first.
  const bool over = ranks > std::size_t(1) << rounds;
  return all_after_the_last(arrivals_s,
                            (rounds + over) * exchange_s + 2 * over * hop_s(message_bytes, link));
}

std::vector<double> estimate_halving(const std::vector<double>& arrivals_s, int,
                                     double message_bytes, const Link& link) {
  const std::size_t ranks = arrivals_s.size();
  const int rounds = floor_log2(ranks);
  const auto there_and_back_s = [&](double bytes) {
    return 2 * hop_s(bytes, link) + bytes / link.reduce_bytes_per_s;
  };
  double after_s = 0;
  for (int round = 1; round <= rounds; ++round) {
    after_s += there_and_back_s(message_bytes / double(std::size_t(1) << round));
  }
  // The other blocks of ranks hand up and are told what each of their ranks holds.
  for (int block = 0; block < rounds; ++block) {
    const std::size_t block_ranks = std::size_t(1) << block;
    if (ranks & block_ranks) after_s += there_and_back_s(message_bytes / double(block_ranks));
  }
  return all_after_the_last(arrivals_s, after_s);
}

std::vector<double> estimate_chain(const std::vector<double>& arrivals_s, int segments,
                                   double message_bytes, const Link& link) {
  const std::size_t ranks = arrivals_s.size();
  std::vector<double> finish_s(arrivals_s);
  if (ranks == 1) return finish_s;
  const double segment_bytes = message_bytes / segments;
  const double busy_s = link.port_share * link.latency_s + link.transfer_s(segment_bytes);
  const double flight_s = (1 - link.port_share) * link.latency_s;
  const double sum_s = segment_bytes / link.reduce_bytes_per_s;
  // Towards the last rank: when the first and the last segment are summed, when the port is free.
  std::vector<double> sent_s(ranks);
  double first_s = 0, done_s = 0;
  for (std::size_t id = 0; id < ranks; ++id) {
    if (id == 0) {
      first_s = done_s = arrivals_s[0];
    } else {
      first_s = std::max(arrivals_s[id], first_s + busy_s + flight_s) + sum_s;
      done_s = std::max(arrivals_s[id] + segments * sum_s, sent_s[id - 1] + flight_s + sum_s);
    }
    sent_s[id] = std::max(done_s + busy_s, first_s + segments * busy_s);
  }
  finish_s[ranks - 1] = done_s;
  // And from the last rank to the first and down the chain.
  double first_result_s = first_s, last_result_s = sent_s[ranks - 1] - busy_s;
  for (std::size_t id = 0; id + 1 < ranks; ++id) {
    if (id > 0) first_result_s = std::max(first_result_s, sent_s[id - 1]);  // its port is free
    first_result_s += busy_s + flight_s;
    last_result_s =
        std::max(last_result_s + busy_s + flight_s, first_result_s + (segments - 1) * busy_s);
    finish_s[id] = last_result_s;
  }
  return finish_s;
}

}  // namespace patallreduce::selection
