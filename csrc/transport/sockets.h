// This process's sockets of TCP, by where they end: UCX does not tell which are its own, but one
// end of each is where a rank listens.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <map>
#include <set>
#include <tuple>
#include <utility>
#include <vector>

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

// What has gone to a rank so far, over all connections with it.
struct Sent {
  std::uint64_t bytes = 0;  // that it has acknowledged
  double busy_s = 0;        // while some were to be sent, and it had room for them
};

// Watches this process's connections with others, by the kernel's counters. Nothing travels.
class SocketWatch {
 public:
  // By rank, where each listens. Ranks are told apart by their hosts: if two share one, or one has
  // no ends, nothing is watched.
  explicit SocketWatch(const std::vector<std::set<End>>& ends);

  bool watches() const { return !rank_at_.empty(); }
  // By rank.
  std::vector<Sent> sent();

 private:
  using Host = std::pair<std::uint64_t, std::uint64_t>;
  struct Known {
    int number;
    ino_t inode;
    int rank;
  };

  void look();

  std::set<End> ends_;
  std::map<Host, int> rank_at_;
  std::size_t ranks_;
  std::vector<Known> known_;
  double next_look_s_ = 0;
};

}  // namespace patallreduce::transport
