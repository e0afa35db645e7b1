// Ranks as threads of one process: every rank has a mailbox in a shared hub.
//
// Small messages are buffered, larger ones wait for their receiver, as over a real network: a
// schedule that needs unbounded buffering hangs here too.
#pragma once

#include <map>
#include <memory>
#include <mutex>
#include <utility>

#include "transport/transport.h"

namespace patallreduce::transport {

class LoopbackHub {
 public:
  explicit LoopbackHub(int ranks);
  LoopbackHub(const LoopbackHub&) = delete;

  int ranks() const { return static_cast<int>(boxes_.size()); }

  // For tests: every other rank sees `rank` as lost, as after a crash.
  void lose(int rank);

 private:
  friend class Loopback;
  using Key = std::pair<int, std::uint64_t>;  // sender, tag
  struct Posted {
    void* data;
    std::size_t bytes;
    Token token;
  };
  struct Waiting {
    const void* data;  // the sender's memory, or `copy`
    std::size_t bytes;
    Token token;
    std::string copy;
    bool buffered;
  };
  struct Box {
    std::mutex mutex;
    std::map<Key, Posted> posted;
    std::map<Key, Waiting> waiting;
    Events events;
    int fd = -1;
    bool signalled = false;
    ~Box();
  };

  void finish(int rank, Token token);
  void lose(int at, int rank, const std::string& reason);
  static void signal(Box& box);

  std::vector<std::unique_ptr<Box>> boxes_;
};

class Loopback final : public Transport {
 public:
  Loopback(std::shared_ptr<LoopbackHub> hub, int rank);
  ~Loopback() override;

  const char* name() const override { return "loopback"; }
  int rank() const override { return rank_; }
  int ranks() const override { return hub_->ranks(); }
  void send(int to, std::uint64_t tag, const void* data, std::size_t bytes, Token token) override;
  void recv(int from, std::uint64_t tag, void* data, std::size_t bytes, Token token) override;
  void control(int to, const std::string& bytes) override;
  void progress(Events& events) override;
  bool arm() override;
  std::vector<int> event_fds() const override { return {box().fd}; }
  void abandon() override;
  void close(double timeout_s) override;

 private:
  LoopbackHub::Box& box() const { return *hub_->boxes_[rank_]; }

  std::shared_ptr<LoopbackHub> hub_;
  int rank_;
};

}  // namespace patallreduce::transport
