// Who asks whom for a pulse while ranks wait, and who is found silent; the clock is made up.
#include "executor/watch.h"

#include <algorithm>
#include <vector>

#include "check.h"

namespace patallreduce::native {

using executor::Watch;

namespace {

constexpr double timeout_s = 30, interval_s = 0.5, look_s = 0.02;

// Ranks that wait, since 1 s, for what never comes; `stopped`, if any, stops at 2 s. Others ask
// and answer at once. Checks that asks are few at any time, and that only who stopped is silent.
void wait_together(int ranks, int stopped, Random& random) {
  const Call call;
  std::vector<Watch> watches;
  std::vector<double> next_look_s;
  for (int rank = 0; rank < ranks; ++rank) {
    watches.emplace_back(ranks, rank);
    next_look_s.push_back(1 + look_s * pick(random, 0, 99) / 100);
  }
  constexpr double began_s = 1, stops_s = 2, ends_s = 6, step_s = 0.001;
  int asks = 0, asks_now = 0, most_now = 0;
  double found_s = 0;
  for (int step = 0; began_s + step * step_s < ends_s; ++step) {
    const double now_s = began_s + step * step_s;
    const auto lives = [&](int rank) { return rank != stopped || now_s < stops_s; };
    if (step % 20 == 0) asks_now = 0;
    for (int rank = 0; rank < ranks; ++rank) {
      if (!lives(rank) || now_s < next_look_s[rank]) continue;
      Watch& watch = watches[rank];
      watch.begin(now_s);
      watch.see({0, call, began_s, timeout_s, nullptr, false});
      for (const int peer : watch.end()) {
        CHECK(peer != rank);
        ++asks;
        ++asks_now;
        if (!lives(peer)) continue;
        watches[peer].heard(rank, now_s, 1);
        watch.heard(peer, now_s, 1);
      }
      next_look_s[rank] = now_s + look_s;
      for (const int silent : watch.silent()) {
        CHECK(silent == stopped && now_s > stops_s + interval_s);
        if (found_s == 0) found_s = now_s;
      }
    }
    most_now = std::max(most_now, asks_now);
  }
  // One ask for each two ranks an interval; a few ranks at a time.
  const double intervals = (ends_s - began_s) / interval_s;
  CHECK(asks < 0.6 * ranks * (ranks - 1) * intervals);
  CHECK(asks > 0.3 * ranks * (ranks - 1) * intervals);
  CHECK(most_now <= (2 + ranks / 8) * (ranks - 1));
  CHECK((stopped < 0) == (found_s == 0));
  CHECK(found_s < stops_s + 3.2 * interval_s);
  if (stopped < 0) return;
  for (int rank = 0; rank < ranks; ++rank)
    if (rank != stopped) CHECK(watches[rank].silent() == std::vector<int>{stopped});
}

}  // namespace

void test_watch(Random& random) {
  for (int round = 0; round < 20; ++round) {
    const int ranks = pick(random, 2, 64);
    wait_together(ranks, round % 2 ? pick(random, 0, ranks - 1) : -1, random);
  }
}

}  // namespace patallreduce::native
