// An engine whose peers are strangers: whatever they send, every call ends by its deadline, and so
// does closing. Time is simulated; what comes, and when, is the fuzzer's.
#include "executor/engine.h"

#include <cstdlib>
#include <deque>
#include <memory>
#include <vector>

#include "algorithms/internal_keys.h"
#include "algorithms/registry.h"
#include "algorithms/resolve.h"
#include "clock.h"
#include "errors.h"
#include "harness.h"

namespace patallreduce::fuzz {

namespace {

using executor::Call;
using executor::Engine;
using executor::EngineOptions;
using executor::Ticket;
using transport::Events;
using transport::Token;
using transport::Transport;

constexpr int ranks = 3;
constexpr double timeout_s = 1;
// The deadline, what the others made of it twice, and the looks between.
constexpr double longest_s = 4;

class Strangers final : public Transport {
 public:
  Strangers(Input& input, int rank) : input_(input), rank_(rank) {}

  const char* name() const override { return "strangers"; }
  int rank() const override { return rank_; }
  int ranks() const override { return fuzz::ranks; }
  void send(int, std::uint64_t, const void*, std::size_t, Token token) override {
    posted_.push_back(token);
  }
  void recv(int, std::uint64_t, void*, std::size_t, Token token) override {
    posted_.push_back(token);
  }
  void control(int to, const std::string& bytes) override {
    if (to < 0 || to >= fuzz::ranks || to == rank_) std::abort();
    told_ = bytes;
  }
  bool arm() override { return false; }
  std::vector<int> event_fds() const override { return {}; }
  void abandon() override { posted_.clear(); }
  void close(double) override { posted_.clear(); }

  void progress(Events& events) override {
    simulated_s += input_.empty() ? 0.02 : 1e-4;
    const std::uint8_t what = input_.byte();
    const int from = (rank_ + 1 + what / 64 % 2) % fuzz::ranks;
    switch (what % 8) {
      case 1:  // anything
        events.control.push_back({from, input_.bytes(input_.byte())});
        break;
      case 2:  // what this rank told last, as if another did: mostly well-formed
        events.control.push_back({from, altered(told_)});
        break;
      case 3:
        finish(events, input_.byte());
        break;
      case 4:
        finish(events, 0);
        break;
      case 5:
        if (input_.byte() % 16 == 0) events.lost.push_back({from, "by the fuzzer"});
        break;
      case 6:
        simulated_s += 0.05;
        break;
      default:
        break;
    }
  }

 private:
  std::string altered(std::string bytes) {
    const std::uint8_t at = input_.byte(), by = input_.byte();
    if (at < bytes.size()) bytes[at] = static_cast<char>(bytes[at] ^ by);
    return bytes;
  }
  void finish(Events& events, std::size_t which) {
    if (posted_.empty()) return;
    const auto token = posted_.begin() + static_cast<std::ptrdiff_t>(which % posted_.size());
    events.finished.push_back(*token);
    posted_.erase(token);
  }

  Input& input_;
  const int rank_;
  std::deque<Token> posted_;
  std::string told_;
};

Call call_of(const char* algorithm, std::uint64_t count, bool planned) {
  Call call;
  call.count = count;
  call.key.algorithm = algorithm;
  call.key.segments = 3;
  if (planned) call.loop = 1, call.iteration = 0, call.label = 0;
  return call;
}

}  // namespace

void run(Input& input) {
  simulated_s = 1;
  const std::uint8_t chosen = input.byte();
  Engine engine(
      std::make_shared<Strangers>(input, chosen % ranks),
      EngineOptions{0,
                    true,
                    4096,
                    {algorithms::steps_of, algorithms::is_dynamic, algorithms::collective_of},
                    algorithms::barrier_key(),
                    false});
  try {
    engine.start(timeout_s);
  } catch (const TransportError&) {
  }
  std::vector<float> values[4];
  std::shared_ptr<Ticket> tickets[4];
  const char* const algorithms[] = {"ring", "slt_dynamic", "slt", "recursive_doubling"};
  for (int i = 0; i < 4; ++i) {
    values[i].assign(100, 1);
    const bool planned = chosen & (16 << i);
    tickets[i] = engine.submit(values[i].data(), call_of(algorithms[i], 100, planned), timeout_s);
  }
  const double until_s = now_s() + longest_s;
  for (const auto& ticket : tickets)
    while (!engine.wait(*ticket, 0.1))
      if (now_s() > until_s) std::abort();
  engine.close(timeout_s);
  if (now_s() > until_s + longest_s) std::abort();
}

}  // namespace patallreduce::fuzz
