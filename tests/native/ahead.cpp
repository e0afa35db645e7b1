// What others have done before this rank: announced what is too much to compile for their sake, or
// left before this rank had room to take what they sent.
#include <algorithm>
#include <chrono>

#include "algorithms/internal_keys.h"
#include "algorithms/registry.h"
#include "algorithms/resolve.h"
#include "check.h"

namespace patallreduce::native {

using algorithms::barrier_key;
using algorithms::collective_of;
using algorithms::is_dynamic;
using algorithms::steps_of;
using executor::Announcement;
using executor::EngineOptions;
using executor::Hello;
using executor::protocol_version;
using transport::Loopback;

namespace {

// A program for 262,143 segments takes a second, and every announcement may ask for another.
void announced_segments() {
  int most = 0;
  const auto steps = [&](const ScheduleKey& key, int ranks, int rank) {
    most = std::max(most, key.segments);
    return steps_of(key, ranks, rank);
  };
  const auto hub = std::make_shared<LoopbackHub>(2);
  Loopback peer(hub, 1);
  Engine engine(
      std::make_shared<Loopback>(hub, 0),
      EngineOptions{0, true, 1 << 20, {steps, is_dynamic, collective_of}, barrier_key(), false});
  peer.control(0, encode(Hello{protocol_version}));
  engine.start(30);
  const auto announced = [&](std::uint64_t seq, int segments) {
    peer.control(0, encode(Announcement{seq, call_of(10000, "slt", segments)}));
    engine.wait(Ticket(), 0.01);  // its only thread drives
    return most;
  };
  CHECK(announced(0, 4096) == 4096);
  CHECK(announced(1, 4097) == 4096);
  // This rank's own call is another matter.
  std::vector<float> values(10000);
  engine.submit(values.data(), call_of(10000, "slt", 4097), 60);
  CHECK(most == 4097);
}

// Rank 1 has sent what it gives to both collectives, and leaves. Rank 0 has no room for the second
// while the first waits for rank 2, which is late.
void left_before_admission() {
  constexpr int ranks = 3;
  constexpr double timeout_s = 3;
  const auto hub = std::make_shared<LoopbackHub>(ranks);
  auto engines = loopback_engines(ranks, hub, 1);
  each_rank(ranks, [&](int rank) {
    if (rank == 2) std::this_thread::sleep_for(std::chrono::duration<double>(timeout_s / 2));
    Call call = call_of(100, "flat_reduce", 1);
    call.key.root = 0;
    Values first(100), second(100);
    std::vector<std::shared_ptr<Ticket>> tickets;
    for (Values* values : {&first, &second}) {
      fill(*values, call, rank);
      tickets.push_back(engines[rank]->submit(values->data(), call, timeout_s));
    }
    for (const auto& ticket : tickets) {
      wait(*engines[rank], *ticket);
      if (ticket->failure) failed(__FILE__, __LINE__, ticket->failure->what);
    }
    for (const Values* values : {&first, &second}) check(*values, call, ranks, rank);
    engines[rank]->close(10);
    if (rank == 1) hub->lose(1);  // its connections end
  });
}

}  // namespace

void test_ahead(Random&) {
  announced_segments();
  left_before_admission();
}

}  // namespace patallreduce::native
