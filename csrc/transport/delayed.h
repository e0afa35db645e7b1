// For tests: a transport whose control messages come late, each by a time of its own.
//
// A message waits with its sender: it is handed to the transport beneath once
// its time has come, in order per peer. Most wait a little and few nearly the longest, as on a
// network with a rare hiccup. Segments are not delayed. It is in the product's extension because
// tests put it between real processes too, around transports that are made there.
#pragma once

#include <deque>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "transport/transport.h"

namespace patallreduce::transport {

class Delayed final : public Transport {
 public:
  // Delays between 0 and max_delay_s seconds, drawn from `seed` and the rank.
  Delayed(std::shared_ptr<Transport> beneath, double max_delay_s, std::uint64_t seed);
  ~Delayed() override;

  const char* name() const override { return beneath_->name(); }
  int rank() const override { return beneath_->rank(); }
  int ranks() const override { return beneath_->ranks(); }
  void send(int to, std::uint64_t tag, const void* data, std::size_t bytes, Token token) override {
    beneath_->send(to, tag, data, bytes, token);
  }
  void recv(int from, std::uint64_t tag, void* data, std::size_t bytes, Token token) override {
    beneath_->recv(from, tag, data, bytes, token);
  }
  void control(int to, const std::string& bytes) override;
  void progress(Events& events) override;
  bool sends_at_memory_speed() const override { return beneath_->sends_at_memory_speed(); }
  bool only_sockets() const override { return beneath_->only_sockets(); }
  std::vector<std::set<End>> ends() const override { return beneath_->ends(); }
  bool arm() override;
  std::vector<int> event_fds() const override;
  void abandon() override;
  void close(double timeout_s) override;

 private:
  struct Held {
    double due_s;
    std::string bytes;
  };
  double delay_s();
  double next_due_s() const;  // infinite: nothing is held

  std::shared_ptr<Transport> beneath_;
  double max_delay_s_;
  std::mt19937_64 random_;
  std::vector<std::deque<Held>> held_;  // by peer, oldest first
  int timer_fd_;                        // wakes a sleeper when the next message is due
};

}  // namespace patallreduce::transport
