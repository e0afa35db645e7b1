// What it costs to send a message from one rank to another.
#pragma once

#include <cstdint>
#include <utility>
#include <vector>

namespace patallreduce::pricing {

struct Link {
  double latency_s = 20e-6;
  double bytes_per_s = 1e9;  // of long messages between two ranks
  double reduce_bytes_per_s = 5e9;
  // Measured transfer seconds by message bytes, ascending, without latency; between two sizes (and
  // from 0 to the first) linear, beyond the last by bytes_per_s. Empty: bytes / bytes_per_s.
  std::vector<std::pair<double, double>> transfers_s;
  // Share of the latency that occupies the ports; during the rest the next message can leave.
  // 1: Hockney's model to the letter. Measured on this project's transports: nearer to a quarter
  // (segments that follow each other overlap most of their latencies;
  // algorithms/all_reduce/slt.cpp).
  double port_share = 0.25;
  // Share of the latency for which a port that a message has begun to pass cannot begin with one of
  // another partner, besides: programs and kernels have more to do for it. Of long messages it is
  // over before they are.
  double change_share = 0;
  // By rank, or by node: 1 to schedule::most_port_width, to compare its port's bandwidth with the
  // others'. bytes_per_s and transfers_s are the narrowest's. Empty: alike.
  std::vector<std::int32_t> ports = {};
  // With how many others at once a rank's port is full, >= 1: its bandwidth over bytes_per_s.
  // Only where messages share ports does it count; where they take turns there is one partner.
  double partners = 1;
  // What a port that has rested lets through at once, each direction (a token bucket).
  double burst_bytes = 0;
  // How many processors all ranks share, where no port but processors move messages, half of each
  // at either end, and sums wait for them, too: shared memory. 0: ports move them.
  int processors = 0;

  double transfer_s(double message_bytes) const;
  // Of the widest port, over the narrowest's.
  double widest() const;
};

// Throws ScheduleError, naming the field, unless all of them are finite and > 0, shares within 0..1
// and transfers_s ascending in bytes.
void check(const Link& link);
// Unless it has no ports, or one for each.
void check_ports(const Link& link, int ranks);
// What compares ports of these bandwidths, each > 0: whole numbers, finer than anybody measures.
// Empty: they are alike.
std::vector<std::int32_t> port_widths(const std::vector<double>& bytes_per_s);

}  // namespace patallreduce::pricing
