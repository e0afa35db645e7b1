// Collectives on fake streams over a fake NCCL, in lanes, between others of the same engines:
// right, or all ended with one error.
#include <atomic>
#include <chrono>
#include <deque>
#include <limits>
#include <optional>

#include "algorithms/resolve.h"
#include "check.h"
#include "errors.h"
#include "fakes.h"
#include "gpu/nccl/carrier.h"
#include "schedule/lanes.h"

namespace patallreduce::native {

using algorithms::collective_of;
using algorithms::is_dynamic;
using algorithms::schedule_of;
using executor::Call;
using executor::Engine;
using executor::Failure;
using executor::Kind;
using executor::raise;
using executor::Ticket;
using gpu::Device;
using gpu::NcclCarrier;
using gpu::NcclCommunicator;
using gpu::NcclTicket;
using gpu::PatrNcclUniqueId;
using schedule::lanes_for;
using schedule::Plan;
using schedule::PlannedBucket;
using schedule::ScheduleKey;

namespace {

constexpr int in_flight = 4;
constexpr int without_end = std::numeric_limits<int>::max();

struct Item {
  Call call;
  bool on_streams;
  std::shared_ptr<const Plan> plan;  // null: not planned
};

// The same on all ranks but for the steps of given schedules.
Item item_of(unsigned long seed, int index, int ranks, int rank) {
  Random random(seed + static_cast<unsigned long>(index));
  Item item{random_call(random, ranks, rank, 4000), pick(random, 0, 4) > 0, nullptr};
  Call& call = item.call;
  if (item.on_streams && is_dynamic(call.key)) call.key = {"rabenseifner", pick(random, 1, 9)};
  const int most_segments = static_cast<int>(call.count) + 1;  // as a selector would
  const ScheduleKey planned = random_key(random, ranks, rank, most_segments, false);
  if (pick(random, 0, 2) == 0 && collective_of(call.key) == "all_reduce") {
    call.loop = call.label = 0;
    call.iteration = index;
    const PlannedBucket bucket{call.count, 4, planned.given && call.count < 4 ? call.key : planned};
    item.plan = std::make_shared<const Plan>(Plan{0, index, {bucket}});
  }
  return item;
}

struct Bucket {
  Item item;
  Values given, home, seen;
  std::shared_ptr<NcclTicket> work;  // null: the engine's own
  std::shared_ptr<Ticket> ticket;

  Bucket(Item item_, int rank) : item(std::move(item_)) {
    given.resize(std::max<std::size_t>(item.call.count, 1));
    fill(given, item.call, rank);
    home.assign(given.size(), 77);
    seen = item.on_streams ? Values(given.size(), 55) : given;
  }
};

class Rank {
 public:
  Rank(std::shared_ptr<Engine> engine_, const std::vector<PatrNcclUniqueId>& lanes,
       unsigned long seed)
      : engine(std::move(engine_)),
        seed_(seed),
        own_(seed + 1000 * static_cast<unsigned long>(engine->rank() + 1)),
        device_(fake_cuda(), 0),
        producer_(device_.create_stream()),
        consumer_(device_.create_stream()) {
    auto gpu = std::make_unique<Device>(fake_cuda(), 0);
    std::vector<std::unique_ptr<NcclCommunicator>> nccl;
    for (const auto& id : lanes) {
      nccl.push_back(std::make_unique<NcclCommunicator>(fake_nccl(), *gpu, id, engine->rank(),
                                                        engine->ranks(), now_s() + 30));
    }
    calls = std::make_shared<NcclCarrier>(engine, std::move(gpu), std::move(nccl), schedule_of);
    calls->connect(30);
  }
  ~Rank() {
    if (calls) calls->close(10);
    calls = nullptr;
    if (engine) engine->close(10);
    for (void* const stream : {producer_, consumer_}) {
      device_.synchronise(stream);
      device_.destroy_stream(stream);
    }
  }

  // `late_ms`: until the contribution is there; < 0: until `contributes`.
  Bucket& submit(double timeout_s, int late_ms) {
    const int index = static_cast<int>(buckets_.size());
    Bucket& bucket = buckets_.emplace_back(item_of(seed_, index, engine->ranks(), engine->rank()),
                                           engine->rank());
    const Call& call = bucket.item.call;
    submitted_ = index;
    if (bucket.item.on_streams) {
      if (late_ms > 0) fake_sleep(producer_, late_ms);
      if (late_ms < 0) fake_hold(producer_, &contributes);
      copy(bucket.given, bucket.home, producer_);
      bucket.work = calls->submit(bucket.home.data(), call, producer_, timeout_s);
    } else {
      bucket.ticket = engine->submit(bucket.seen.data(), call, timeout_s);
    }
    return bucket;
  }

  // Throws what ends them.
  void collectives(int count, double timeout_s) {
    for (int i = 0; i < count; ++i) {
      pause(own_, 300);
      submit(timeout_s, pick(own_, 0, 9) == 0 ? pick(own_, 1, 3) : 0);
      if (i >= in_flight) use(buckets_[i - in_flight]);
    }
    for (int i = std::max(count - in_flight, 0); i < count; ++i) use(buckets_[i]);
    for (const Bucket& bucket : buckets_) {
      while (bucket.work && !calls->wait(*bucket.work, 1)) {
      }
    }
    device_.synchronise(consumer_);
    for (const Bucket& bucket : buckets_)
      check(bucket.seen, bucket.item.call, engine->ranks(), engine->rank());
  }

  // As the leader does, early or late.
  void plan(int count) {
    Random random(seed_ + 17 * static_cast<unsigned long>(engine->rank() + 1));
    for (int i = 0; i < count && !engine->failure(); ++i) {
      while (i > submitted_ + 5 && !engine->failure()) pause(random, 300);
      if (const auto plan = item_of(seed_, i, engine->ranks(), engine->rank()).plan)
        engine->plan(plan);
      pause(random, 300);
    }
  }

  // Whatever ended it, all of its collectives end, and what comes says why.
  void check_ended() {
    const auto failure = engine->failure();
    const auto expect = [&](const std::function<void()>& ends) {
      try {
        ends();
      } catch (const TransportError& error) {
        CHECK(error.what() == failure->what && error.rank == failure->rank);
      }
    };
    for (Bucket& bucket : buckets_) {
      if (bucket.ticket) wait(*engine, *bucket.ticket);
      if (bucket.work && calls)
        expect([&] {
          while (!calls->wait(*bucket.work, 1)) {
          }
        });
    }
    if (calls) {
      expect([&] {
        const auto work = calls->submit(&one_, call_of(1, "ring", 1), producer_, 60);
        calls->wait(*work, 1);
        CHECK(!"a failed communicator goes on");
      });
    }
  }

  std::shared_ptr<Engine> engine;
  std::shared_ptr<NcclCarrier> calls;
  std::atomic<bool> contributes{false};

 private:
  void copy(const Values& from, Values& to, void* stream) {
    device_.copy(to.data(), from.data(), from.size() * sizeof(float), stream);
  }
  void use(Bucket& bucket) {
    if (bucket.work) {
      calls->join(*bucket.work, consumer_);
      copy(bucket.home, bucket.seen, consumer_);
    } else {
      wait(*engine, *bucket.ticket);
      if (bucket.ticket->failure) raise(*bucket.ticket->failure);
    }
  }

  const unsigned long seed_;
  Random own_;
  const Device device_;
  void *const producer_, *const consumer_;
  std::deque<Bucket> buckets_;  // streams write to them
  float one_ = 1;
  std::atomic<int> submitted_{0};
};

struct World {
  std::vector<PatrNcclUniqueId> lanes;
  std::vector<std::unique_ptr<Rank>> all;

  World(Random& random, int ranks) {
    for (int i = 0; i < lanes_for(ranks); ++i) lanes.push_back(fake_nccl().unique_id());
    std::vector<std::shared_ptr<Engine>> engines;
    for (auto& engine : loopback_engines(ranks, nullptr)) engines.push_back(std::move(engine));
    const unsigned long seed = random();
    all.resize(ranks);
    each_rank(ranks, [&](int rank) {
      all[rank] = std::make_unique<Rank>(std::move(engines[rank]), lanes, seed);
    });
  }
  ~World() {
    each_rank(static_cast<int>(all.size()), [&](int rank) { all[rank] = nullptr; });
    CHECK(fake_count() == 0);
  }
};

void good(Random& random, int ranks) {
  constexpr int count = 40;
  World world(random, ranks);
  each_rank(ranks, [&](int number) {
    Rank& rank = *world.all[number];
    std::thread planner([&] { rank.plan(count); });
    std::thread completer([&] {
      while (rank.calls->next_done(60)) {
      }
    });
    rank.collectives(count, 60);
    CHECK(!rank.engine->failure());
    rank.calls->close(10);  // of some while others still drain
    completer.join();
    planner.join();
  });
}

// Collectives of all ranks until they end with what is `expected`. `leave`, if not null, is what
// `victim` does after a few.
void until_failure(Random& random, double timeout_s,
                   const std::function<bool(const Failure&)>& expected, int victim,
                   const std::function<void(World&)>& disturb,
                   const std::function<void(Rank&)>& leave) {
  constexpr int ranks = 4;
  World world(random, ranks);
  const int goes = leave ? pick(random, 0, 20) : without_end;
  std::thread disturber([&] { disturb(world); });
  each_rank(ranks, [&](int number) {
    Rank& rank = *world.all[number];
    std::thread planner([&] { rank.plan(without_end); });
    try {
      rank.collectives(number == victim ? goes : without_end, timeout_s);
      leave(rank);
    } catch (const TransportError&) {
    }
    while (!rank.engine->failure()) std::this_thread::sleep_for(std::chrono::milliseconds(1));
    planner.join();
    if (!expected(*rank.engine->failure()))
      failed(__FILE__, __LINE__, rank.engine->failure()->what);
    rank.check_ended();
  });
  disturber.join();
}

void nothing(World&) {}

void silent(Random& random, int victim) {
  const auto expected = [=](const Failure& failure) {
    return failure.kind == Kind::timeout && failure.rank == victim;
  };
  until_failure(random, 1.0, expected, victim, nothing, [](Rank&) {});
}

void aborted(Random& random, int victim) {
  const int after_us = pick(random, 0, 20000);
  const auto expected = [=](const Failure& failure) {
    return failure.kind == Kind::transport && failure.rank == victim;
  };
  const auto disturb = [=](World& world) {
    std::this_thread::sleep_for(std::chrono::microseconds(after_us));
    world.all[victim]->engine->abort("by the test");
  };
  until_failure(random, 60, expected, victim, disturb, nullptr);
}

// NCCL's own words come after the engine had time to find what is behind them.
void broken(Random& random, int victim) {
  const int after_us = pick(random, 0, 20000), lane = pick(random, 0, lanes_for(4) - 1);
  const auto expected = [=](const Failure& failure) {
    return failure.kind == Kind::transport &&
           failure.what ==
               concat("NCCL: rank ", victim, ": messages: remote process exited (fake)");
  };
  const auto disturb = [=](World& world) {
    std::this_thread::sleep_for(std::chrono::microseconds(after_us));
    CHECK(fake_break(world.lanes[lane].internal, victim) == 0);
  };
  until_failure(random, 60, expected, victim, disturb, nullptr);
}

// Closes, or is dropped, with a collective in flight whose contribution is not there yet.
void left(Random& random, int victim, bool drops) {
  const auto expected = [=](const Failure& failure) {
    return failure.kind == Kind::transport && failure.rank == victim;
  };
  const bool queued = pick(random, 0, 1);
  const auto contribute = [=](World& world) {  // once the others know, however slow this machine is
    Rank& rank = *world.all[victim];
    while (!rank.engine->failure()) std::this_thread::sleep_for(std::chrono::milliseconds(1));
    rank.contributes = true;
  };
  until_failure(random, 60, expected, victim, contribute, [=](Rank& rank) {
    while (!rank.submit(60, -1).item.on_streams) {
    }
    if (queued) std::this_thread::sleep_for(std::chrono::milliseconds(10));
    if (drops)
      rank.calls = nullptr;
    else
      rank.calls->close(0);
  });
}

// Nobody closes anything, and the engines' threads must not be the ones that end it all.
void forgotten(Random& random) {
  World world(random, 3);
  each_rank(3, [&](int number) {
    Rank& rank = *world.all[number];
    try {
      for (int i = 0; i < 5 * number; ++i) {
        const Bucket& bucket = rank.submit(60, 0);
        if (bucket.item.plan) rank.engine->plan(bucket.item.plan);
      }
    } catch (const TransportError&) {  // another rank is gone already
    }
    rank.calls = nullptr;
    rank.engine = nullptr;
  });
}

}  // namespace

void test_streams(Random& random) {
  for (const int ranks : {1, 2, 3, 4, 5}) good(random, ranks);
  silent(random, pick(random, 0, 3));
  broken(random, pick(random, 0, 3));
  for (int i = 0; i < 2; ++i) {
    aborted(random, pick(random, 0, 3));
    left(random, pick(random, 0, 3), false);
    left(random, pick(random, 0, 3), true);
    forgotten(random);
  }
}

}  // namespace patallreduce::native
