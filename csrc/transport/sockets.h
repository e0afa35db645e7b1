// This process's sockets of TCP, by where they end: UCX does not tell which are its own, but one
// end of each is where a rank listens.
#pragma once

#include <cstdint>
#include <set>
#include <tuple>

namespace patallreduce::transport {

struct End {
  std::uint64_t host[2];  // of IPv6; an address of IPv4 is mapped into it
  std::uint64_t port;

  bool operator<(const End& other) const {
    return std::tie(host[0], host[1], port) < std::tie(other.host[0], other.host[1], other.port);
  }
};

// Where this process listens.
std::set<End> listening();

// Shuts down the connections with one of these ends that take no byte, now and for `timeout_s`: to
// send on them fails from then on, and what they have taken still leaves if it can.
void shut_down_blocked(const std::set<End>& ends, double timeout_s);

// Closes those with one of these ends, and leaves something that is no socket in their place: their
// numbers are still known to UCX.
void close_in_child(const std::set<End>& ends);

}  // namespace patallreduce::transport
