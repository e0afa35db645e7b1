// What others have done before this rank: announced what is too much to compile for their sake, or
// left before this rank had room to take what they sent.
#include <algorithm>
#include <atomic>
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
using namespace std::chrono_literals;

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
// before the first has what rank 2 gives; then it takes all in one turn, and looks for what is
// missing.
void left_before_admission() {
  constexpr int ranks = 3;
  const auto hub = std::make_shared<LoopbackHub>(ranks);
  std::atomic<bool> waits_long{false};
  each_rank(ranks, [&](int rank) {
    const bool has_thread = rank != 0;
    Engine engine(
        std::make_shared<Loopback>(hub, rank),
        EngineOptions{
            0, true, 1, {steps_of, is_dynamic, collective_of}, barrier_key(), has_thread});
    engine.start(30);
    while (rank == 2 && !waits_long) std::this_thread::sleep_for(1ms);
    Call call = call_of(100, "flat_reduce", 1);
    call.key.root = 0;
    Values first(100), second(100);
    std::vector<std::shared_ptr<Ticket>> tickets;
    for (Values* values : {&first, &second}) {
      fill(*values, call, rank);
      tickets.push_back(engine.submit(values->data(), call, 3));
    }
    if (rank == 0) {
      engine.wait(Ticket(), 1.5);
      waits_long = true;
      std::this_thread::sleep_for(50ms);
    }
    for (const auto& ticket : tickets) {
      wait(engine, *ticket);
      if (ticket->failure) failed(__FILE__, __LINE__, ticket->failure->what);
    }
    for (const Values* values : {&first, &second}) check(*values, call, ranks, rank);
    engine.close(10);
    if (rank == 1) hub->lose(1);  // its connections end
  });
}

}  // namespace

void test_ahead(Random&) {
  announced_segments();
  left_before_admission();
}

}  // namespace patallreduce::native
