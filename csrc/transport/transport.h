// Moves bytes between ranks. Never sums, schedules or copies for the caller.
//
// A message is named by (sender, tag); the receiver names the same pair, so messages may be sent
// and received in any order. Control messages are small, copied, and keep their order per sender.
// Not thread-safe: its owner makes every call under one lock.
// A peer that fails is reported in Events::lost; nothing else about it is reported afterwards.
#pragma once

#include <cstddef>
#include <cstdint>
#include <iterator>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "transport/sockets.h"

namespace patallreduce::transport {

using Token = std::uint64_t;  // the caller's name for a pending send or recv

struct Events {
  struct Control {
    int from;
    std::string bytes;
  };
  struct Lost {
    int rank;
    std::string reason;
  };
  std::vector<Token> finished;
  std::vector<Control> control;
  std::vector<Lost> lost;

  bool empty() const { return finished.empty() && control.empty() && lost.empty(); }
  void clear() {
    finished.clear();
    control.clear();
    lost.clear();
  }
  // Moves everything of `other` to the end of this.
  void take(Events& other) {
    const auto move = [](auto& from, auto& to) {
      if (to.empty()) {
        std::swap(from, to);
      } else {
        to.insert(to.end(), std::make_move_iterator(from.begin()),
                  std::make_move_iterator(from.end()));
      }
    };
    move(other.finished, finished);
    move(other.control, control);
    move(other.lost, lost);
    other.clear();
  }
};

constexpr std::size_t max_control_bytes = 64 * 1024;

class Transport {
 public:
  virtual ~Transport() = default;
  virtual const char* name() const = 0;
  virtual int rank() const = 0;
  virtual int ranks() const = 0;

  // Both return at once. A tag has 50 bits. The memory must stay valid until `token` is finished. A
  // recv whose message has another size reports the sender as lost, with the two sizes.
  virtual void send(int to, std::uint64_t tag, const void* data, std::size_t bytes,
                    Token token) = 0;
  virtual void recv(int from, std::uint64_t tag, void* data, std::size_t bytes, Token token) = 0;
  virtual void control(int to, const std::string& bytes) = 0;

  // Appends what happened since the last call; never blocks.
  virtual void progress(Events& events) = 0;

  // Whether every peer copies straight out of the sender's memory.
  virtual bool sends_at_memory_speed() const { return false; }
  // Whether all messages come through sockets: a look for them costs system calls.
  virtual bool only_sockets() const { return false; }

  // By rank, where each listens for connections, this one included; empty: not over sockets.
  virtual std::vector<std::set<End>> ends() const { return {}; }

  // Sleeping: arm() until true, then poll `event_fds()` for POLLIN. False: progress first.
  virtual bool arm() = 0;
  virtual std::vector<int> event_fds() const = 0;

  // Gives up every pending send and recv: their memory is not touched once it returns, and
  // their tokens are not reported. The transport can then only be closed.
  virtual void abandon() = 0;

  // Delivers what was sent, waiting at most `timeout_s`, then releases everything.
  virtual void close(double timeout_s) = 0;
};

}  // namespace patallreduce::transport
