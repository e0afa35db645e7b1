// Places in a chain that grows as ranks arrive: everyone is told what it needs, and the rank that
// tells does not begin to send data to its successor while it still has to tell it something.
#include "executor/places.h"

#include <algorithm>
#include <map>
#include <numeric>

#include "check.h"

namespace patallreduce::native {

using executor::Place;
using executor::Places;

namespace {

void fill_chain(int ranks, Random& random) {
  std::vector<int> order(ranks);
  std::iota(order.begin(), order.end(), 0);
  std::shuffle(order.begin(), order.end(), random);
  const int last = ranks - 1;
  Places keeper_of_places(ranks);
  // Per rank: places it was told of, each with when: messages in the order of telling.
  std::vector<std::map<int, int>> told(ranks);
  int messages = 0;
  for (int arrived = 0; arrived < ranks; ++arrived) {
    for (const auto& [to, places] : keeper_of_places.arrived(7, order[arrived])) {
      ++messages;
      for (const Place& place : places) {
        CHECK(place.rank == order[place.place]);
        told[to].emplace(place.place, messages);
      }
    }
    if (arrived < last - 1) continue;
    // The last rank need not be there for all to know all.
    for (int place = 0; place < ranks; ++place) {
      const std::map<int, int>& knows = told[order[place]];
      CHECK(knows.count(place) == 1);
      CHECK(place == 0 || knows.count(place - 1) == 1);
      CHECK(place == last || knows.count(place + 1) == 1);
      CHECK(place != 0 || knows.count(last) == 1);
    }
  }
  CHECK(keeper_of_places.arrived(7, order[0]).empty() ==
        false);  // forgotten: a new collective's number
  const auto keeper = std::find(order.begin(), order.end(), Places::keeper) - order.begin();
  if (keeper + 2 > last) return;
  const int successor = order[keeper + 1];
  CHECK(told[Places::keeper][static_cast<int>(keeper) + 1] >
        told[successor][static_cast<int>(keeper) + 2]);
}

}  // namespace

void test_places(Random& random) {
  for (int round = 0; round < 200; ++round) fill_chain(pick(random, 2, 12), random);
}

}  // namespace patallreduce::native
