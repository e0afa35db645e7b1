// Every algorithm with random sizes and arrivals, many in flight, ranks as threads.
#include <chrono>

#include "check.h"
#include "schedule/plan.h"
#include "transport/loopback.h"

namespace patallreduce::native {

using schedule::Plan;

namespace {

// Larger than the scratch, so that the empty one behind it is admitted when it is over.
void empty_behind_large() {
  constexpr int ranks = 3;
  auto engines = loopback_engines(ranks, nullptr);
  each_rank(ranks, [&](int rank) {
    std::vector<float> large(1 << 19);
    const auto first = engines[rank]->submit(large.data(), call_of(large.size(), "ring", 6), 60);
    const auto second = engines[rank]->submit(nullptr, call_of(0, "ring", 1), 60);
    wait(*engines[rank], *second);
    CHECK(first->done && !first->failure && !second->failure);
    engines[rank]->close(10);
  });
}

// A plan of a schedule that was given reaches each rank when the others announced their calls of
// it.
void plan_of_given() {
  constexpr int ranks = 4, count = 8;
  for (int late = 0; late < ranks; ++late) {
    auto engines = loopback_engines(ranks, nullptr);  // which have never run it
    each_rank(ranks, [&](int rank) {
      Engine& engine = *engines[rank];
      const ScheduleKey given = given_by_hand(rank);
      std::vector<float> values(count, 1);
      Call call = call_of(count, "ring", given.segments);
      if (late % 2) call.key = given;  // as its caller named it, and as the plan does
      call.loop = call.iteration = call.label = 0;
      const auto plan = [&] {
        engine.plan(std::make_shared<const Plan>(Plan{0, 0, {{count, 4, given}}}));
      };
      if (rank != late) plan();
      const auto ticket = engine.submit(values.data(), call, 60);
      std::this_thread::sleep_for(std::chrono::milliseconds(20));
      if (rank == late) plan();
      wait(engine, *ticket);
      CHECK(!ticket->failure && ticket->key == given && values[count - 1] == ranks);
      engine.close(10);
    });
  }
}

}  // namespace

void test_schedules(Random& random) {
  empty_behind_large();
  plan_of_given();

  for (const int ranks : {1, 2, 3, 4, 4, 5}) {
    auto engines = loopback_engines(ranks, nullptr);
    for (int i = 0; i < 10; ++i) random_collectives(engines, random, 8, 60000);
    // Some close while others still drain.
    each_rank(ranks, [&](int rank) { engines[rank]->close(10); });
  }
}

}  // namespace patallreduce::native
