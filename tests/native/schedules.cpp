// Every algorithm with random sizes and arrivals, many in flight, ranks as threads.
#include "check.h"
#include "transport/loopback.h"

namespace patallreduce::native {

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

}  // namespace

void test_schedules(Random& random) {
  empty_behind_large();

  for (const int ranks : {1, 2, 3, 4, 4, 5}) {
    auto engines = loopback_engines(ranks, nullptr);
    for (int i = 0; i < 10; ++i) random_collectives(engines, random, 8, 60000);
    // Some close while others still drain.
    each_rank(ranks, [&](int rank) { engines[rank]->close(10); });
  }
}

}  // namespace patallreduce::native
