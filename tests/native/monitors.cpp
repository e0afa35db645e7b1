// Monitors on ranks as threads: plans arrive while calls are submitted, and monitors end or close
// meanwhile. Every rank runs the same schedules, and every sum is right.
#include <atomic>
#include <map>
#include <mutex>
#include <optional>

#include "check.h"
#include "executor/engine.h"
#include "monitor/monitor.h"
#include "transport/delayed.h"
#include "transport/loopback.h"

namespace patallreduce::native {

using executor::Call;
using executor::Engine;
using executor::Ticket;
using monitor::Arrived;
using monitor::Asked;
using monitor::EdgeReached;
using monitor::IterationId;
using monitor::Leader;
using monitor::Monitor;
using monitor::MonitorOptions;
using monitor::Ping;
using monitor::Pong;
using monitor::Report;
using monitor::Started;
using pricing::Link;
using schedule::Plan;
using schedule::ScheduleKey;
using selection::IterationForecast;
using selection::IterationPlan;
using selection::Planner;
using transport::Delayed;
using transport::Loopback;
using transport::LoopbackHub;
using transport::Transport;

namespace {

constexpr int count = 3000, iterations = 30;

struct Ranks {
  std::vector<std::unique_ptr<Engine>> engines;  // outlive the monitors that hand them plans
  std::vector<std::unique_ptr<Monitor>> monitors;
};

Ranks ranks_with_monitors(int ranks, double delay_s, Random& random) {
  Ranks made;
  made.engines = loopback_engines(ranks, nullptr);
  auto hub = std::make_shared<LoopbackHub>(ranks);
  const std::uint64_t seed = random();
  for (int rank = 0; rank < ranks; ++rank) {
    std::shared_ptr<Transport> aside = std::make_shared<Loopback>(hub, rank);
    if (delay_s > 0) aside = std::make_shared<Delayed>(aside, delay_s, seed);
    Engine* engine = made.engines[rank].get();
    MonitorOptions options;
    options.clock_skew_s = rank * 3.0;
    options.planned = [engine](std::shared_ptr<const Plan> plan) {
      return engine->plan(std::move(plan));
    };
    options.ended = [engine](const std::string& why) { engine->end_plans(why); };
    made.monitors.push_back(std::make_unique<Monitor>(std::move(aside), std::move(options)));
  }
  each_rank(ranks, [&](int rank) { made.monitors[rank]->start(); });
  return made;
}

// Chooses something else every time, so that a rank with another plan would be found; now and then
// what a planner says.
std::atomic<int> caught_up{0};

Leader::Chooser moody(std::shared_ptr<Random> random, int ranks) {
  const auto planner = std::make_shared<Planner>(ranks, Link{});
  return {[random, planner](const IterationForecast& forecast, bool at_once) {
            if (pick(*random, 0, 2) == 0)
              return at_once ? planner->plan_at_once(forecast)
                             : std::optional(planner->plan(forecast));
            static const char* const names[] = {"ring", "slt", "prr", "slt_dynamic"};
            IterationPlan plan;
            for (const std::vector<double>& arrivals_s : forecast.arrivals_s) {
              ScheduleKey key{names[pick(*random, 0, 3)], pick(*random, 1, 20), {}, 1e-3};
              if (key.algorithm != "prr") key.segment_time_s = 0;
              if (key.algorithm != "ring")
                for (std::size_t r = 0; r < arrivals_s.size(); ++r)
                  key.arrivals_s.push_back(pick(*random, 0, 9));
              plan.keys.push_back(std::move(key));
            }
            return std::optional(plan);
          },
          [planner](const std::vector<ScheduleKey>& keys, const IterationForecast& arrived) {
            return planner->finish_s(keys, arrived);
          },
          {},
          {},
          0,
          [planner](bool confirms) {
            ++caught_up;
            return planner->catch_up(confirms);
          }};
}

Call planned_call(std::int64_t loop, std::int64_t iteration, int bucket) {
  Call call = call_of(count, "ring", 3);
  call.label = bucket;
  call.loop = loop;
  call.iteration = iteration;
  return call;
}

void report(Monitor& monitor, Report report, Random& random) {
  if (pick(random, 0, 9) == 0) return;  // lost
  if (pick(random, 0, 9) == 0) monitor.report(report);
  monitor.report(std::move(report));
}

// `disturb(rank, iteration)` may end or close a monitor. `catch_up`: instead of the planner's.
void iterate(Ranks& made, Random& random, const std::function<void(int, int)>& disturb,
             std::function<bool(bool)> catch_up = nullptr) {
  const int ranks = static_cast<int>(made.engines.size());
  Leader::Chooser chooser = moody(std::make_shared<Random>(random()), ranks);
  if (catch_up) chooser.catch_up = std::move(catch_up);
  made.monitors[0]->set_chooser(chooser, 1e-9);
  made.monitors[0]->set_chooser(std::move(chooser), 1e-9);  // instead of the first
  std::mutex mutex;
  std::vector<std::string> keys(iterations * 2);
  const unsigned long seed = random();
  each_rank(ranks, [&](int rank) {
    Random own(seed + static_cast<unsigned long>(rank));
    Engine& engine = *made.engines[rank];
    Monitor& monitor = *made.monitors[rank];
    std::vector<std::vector<float>> values;
    std::vector<std::shared_ptr<Ticket>> tickets;
    const auto settle = [&](int number) {
      wait(engine, *tickets[number]);
      if (tickets[number]->failure) failed(__FILE__, __LINE__, tickets[number]->failure->what);
      for (const float value : values[number]) CHECK(value == static_cast<float>(ranks) * number);
      const std::string key = describe(tickets[number]->key);
      std::lock_guard lock(mutex);
      if (keys[number].empty()) keys[number] = key;
      CHECK(keys[number] == key);
    };
    for (int i = 0; i < iterations; ++i) {
      disturb(rank, i);
      const IterationId id{1, i};
      report(monitor, Started{id, now_s(), {}}, own);
      report(monitor, EdgeReached{id, 0.5, now_s()}, own);
      pause(own, 1500);
      monitor.report(Asked{id, now_s()});
      for (int bucket = 0; bucket < 2; ++bucket) {
        values.emplace_back(count, static_cast<float>(tickets.size()));
        tickets.push_back(engine.submit(values.back().data(), planned_call(1, i, bucket), 60));
      }
      report(monitor, Arrived{id, {now_s(), now_s()}, {{count, 4}, {count, 4}}}, own);
      monitor.records(1, 8);
      if (i >= 10) settle(2 * (i - 10)), settle(2 * (i - 10) + 1);  // up to 20 in flight
    }
    for (int number = std::max(0, 2 * (iterations - 10)); number < 2 * iterations; ++number)
      settle(number);
    engine.close(30);  // while others still get plans
    monitor.close(1);
    monitor.report(Asked{{1, iterations}, 0});  // comes too late, does nothing
  });
}

// Rank 0's plans come from nobody, those of the next ranks from rank 0, rank 18's from rank 1.
void believes_whom_it_should() {
  constexpr int ranks = 20;
  const std::map<int, std::vector<std::int64_t>> teller_of{{0, {}}, {1, {0}}, {18, {1}}};
  for (const auto& [rank, tellers] : teller_of) {
    const auto hub = std::make_shared<LoopbackHub>(ranks);
    std::vector<std::int64_t> planned;
    MonitorOptions options;
    options.planned = [&planned](std::shared_ptr<const Plan> plan) {
      planned.push_back(plan->iteration);
      return true;
    };
    Monitor monitor(std::make_shared<Loopback>(hub, rank), std::move(options));
    for (int from = 0; from < ranks; ++from) {
      if (from == rank) continue;
      Loopback peer(hub, from);
      peer.control(rank, monitor::encode(Plan{1, from, {}}));
      if (from > 0) peer.control(rank, monitor::encode(Pong{0, 1e6}));
    }
    monitor.start();
    Loopback last(hub, 2);
    last.control(rank, monitor::encode(Ping{0}));
    for (transport::Events events; events.empty(); last.progress(events)) std::this_thread::yield();
    CHECK(monitor.offset_s() == 0);
    monitor.close(1);
    CHECK(planned == tellers);
  }
}

// Of a leader that comes late: what is asked in vain fills memory, and takes time to answer.
void asks_the_time_more_and_more_seldom_in_vain() {
  const auto hub = std::make_shared<LoopbackHub>(2);
  Monitor monitor(std::make_shared<Loopback>(hub, 1), {});
  monitor.start();
  std::this_thread::sleep_for(std::chrono::milliseconds(300));
  monitor.close(1);
  Loopback leader(hub, 0);
  transport::Events events;
  leader.progress(events);
  CHECK(!events.control.empty() && events.control.size() < 50);
}

// What was left is being worked out until the last iteration.
void plans_do_not_wait_for_what_was_left(Random& random) {
  Ranks made = ranks_with_monitors(3, 0, random);
  std::atomic<bool> over{false};
  std::atomic<int> begun{0};
  const auto disturb = [&](int rank, int i) { over = over || (rank == 0 && i == iterations - 1); };
  iterate(made, random, disturb, [&](bool) {
    ++begun;
    while (!over) std::this_thread::sleep_for(std::chrono::milliseconds(1));
    return false;
  });
  CHECK(begun > 0);
  CHECK(!made.engines[2]->plans_ended());
}

void what_cannot_be_worked_out_ends_the_leaders_monitor(Random& random) {
  Ranks made = ranks_with_monitors(3, 0, random);
  iterate(
      made, random, [](int, int) {}, [](bool) -> bool { throw std::runtime_error("by the test"); });
  CHECK(made.monitors[0]->failure());
  CHECK(made.monitors[0]->failure()->find("by the test") != std::string::npos);
  CHECK(made.engines[2]->plans_ended());
}

}  // namespace

void test_monitors(Random& random) {
  believes_whom_it_should();
  asks_the_time_more_and_more_seldom_in_vain();
  plans_do_not_wait_for_what_was_left(random);
  what_cannot_be_worked_out_ends_the_leaders_monitor(random);
  const auto nothing = [](int, int) {};
  for (const int ranks : {2, 3, 5, 8}) {
    for (const double delay_s : {0.0, 5e-3}) {
      Ranks made = ranks_with_monitors(ranks, delay_s, random);
      caught_up = 0;
      iterate(made, random, nothing);
      CHECK(caught_up > 0);
    }
    for (const bool leader : {false, true}) {
      Ranks made = ranks_with_monitors(ranks, leader ? 2e-3 : 0, random);
      const int at = pick(random, 0, iterations * 2 / 3),
                victim = leader ? 0 : pick(random, 1, ranks - 1);
      iterate(made, random, [&](int rank, int i) {
        if (i == at && rank == victim) made.monitors[rank]->fail("by the test");
      });
      CHECK(made.monitors[victim]->failure());
      CHECK(made.engines[ranks - 1]->plans_ended().has_value() == leader);
    }
    // All of them, in any order, from other threads.
    Ranks made = ranks_with_monitors(ranks, 0, random);
    iterate(made, random, [&](int rank, int i) {
      if (i == 5 + 3 * rank) made.monitors[(rank + 1) % ranks]->fail("by the test");
    });
  }
}

}  // namespace patallreduce::native
