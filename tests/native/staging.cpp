// Collectives on a fake GPU's memory, staged and direct: right, or all ended by one rank.
#include <cmath>

#include "check.h"
#include "errors.h"
#include "fakes.h"
#include "gpu/staged/carrier.h"

namespace patallreduce::native {

using executor::Call;
using executor::Engine;
using gpu::Device;
using gpu::StagedCarrier;
using gpu::StagedTicket;
using reduction::Op;

namespace {

constexpr int ranks = 4;

struct Bucket {
  Call call;
  std::vector<float> given, home, seen;
  std::shared_ptr<StagedTicket> ticket;

  Bucket(Random& random, int rank) {
    const char* const names[] = {"ring", "slt", "slt_dynamic", ""};
    const int choice = pick(random, 0, 3);
    call = call_of(pick(random, 0, 20000), names[choice], 4);
    if (choice == 3) call.key = given_by_hand(rank);
    call.op = pick(random, 0, 1) ? Op::sum : Op::avg;
    given.assign(std::max<std::size_t>(call.count, 1), static_cast<float>(rank + 1));
    home.assign(given.size(), 77);
    seen.assign(given.size(), 55);
  }
  void check() const {
    const double sum = ranks * (ranks + 1) / 2.0;
    const double expected = call.op == Op::avg ? sum / ranks : sum;
    for (std::uint64_t i = 0; i < call.count; ++i) CHECK(std::abs(seen[i] - expected) < 1e-5);
  }
};

// `count` collectives of one rank, all in flight; false if one has failed.
bool collectives(StagedCarrier& staging, const Device& device, int rank, unsigned long seed,
                 int count) {
  Random alike(seed), own(seed + 1 + static_cast<unsigned long>(rank));
  void* const producer = device.create_stream();
  void* const consumer = device.create_stream();
  std::deque<Bucket> buckets;  // streams write to them
  bool good = true;
  const auto copy = [&](const std::vector<float>& from, std::vector<float>& to, void* stream) {
    device.copy(to.data(), from.data(), from.size() * sizeof(float), stream);
  };
  std::thread completer([&] {
    while (const auto ticket = staging.next_done(60))
      if (ticket->number + 1 == static_cast<std::uint64_t>(count)) break;
  });
  try {
    for (int i = 0; i < count; ++i) {
      Bucket& bucket = buckets.emplace_back(alike, rank);
      pause(own, 300);
      copy(bucket.given, bucket.home, producer);
      bucket.ticket = staging.submit(bucket.home.data(), bucket.call, producer, 60, true);
      if (i < 3) continue;
      Bucket& before = buckets[i - 3];
      while (!staging.joinable(*before.ticket, 1)) {
      }
      staging.join(*before.ticket, consumer);
      copy(before.home, before.seen, consumer);
    }
    for (Bucket& bucket : buckets)
      while (!staging.wait(*bucket.ticket, 1)) {
      }
    device.synchronise(consumer);
    for (int i = 0; i + 3 < count; ++i) buckets[i].check();
  } catch (const TransportError&) {
    good = false;
    // Ends the completer. In no time it would lose the memory of calls that the engine still has.
    staging.close(10);
  }
  device.synchronise(producer);
  device.synchronise(consumer);
  completer.join();
  device.destroy_stream(producer);
  device.destroy_stream(consumer);
  return good;
}

void one_world(Random& random, bool direct, bool abort) {
  const auto device = std::make_shared<const Device>(fake_cuda(), 0);
  std::vector<std::shared_ptr<Engine>> engines;
  for (auto& engine : loopback_engines(ranks, nullptr)) engines.push_back(std::move(engine));
  std::vector<std::unique_ptr<StagedCarrier>> stagings;
  for (const auto& engine : engines)
    stagings.push_back(std::make_unique<StagedCarrier>(engine, device, direct));
  const unsigned long seed = random();
  const int victim = pick(random, 0, ranks - 1), after_us = pick(random, 0, 20000);
  std::thread aborter([&] {
    if (!abort) return;
    std::this_thread::sleep_for(std::chrono::microseconds(after_us));
    stagings[victim]->abort("by the test");
  });
  each_rank(ranks, [&](int rank) {
    const bool good = collectives(*stagings[rank], *device, rank, seed, 40);
    CHECK(good || abort);
  });
  aborter.join();
  each_rank(ranks, [&](int rank) {
    stagings[rank]->close(10);
    engines[rank]->close(10);
  });
  stagings.clear();
  CHECK(fake_count() == 0);
}

}  // namespace

void test_staging(Random& random) {
  for (int i = 0; i < 3; ++i)
    for (const bool direct : {false, true})
      for (const bool abort : {false, true}) one_world(random, direct, abort);
}

}  // namespace patallreduce::native
