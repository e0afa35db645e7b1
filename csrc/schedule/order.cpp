// Costs O(steps + touched segments + conflicts): per segment only the last writer and the readers
// since then can still matter, and every writer empties that list of readers.
#include "schedule/order.h"

#include <algorithm>
#include <cstddef>

namespace patallreduce::schedule {

namespace {

struct Touch {
  std::int32_t writer = -1;
  std::vector<std::int32_t> readers;  // since `writer`
};

struct Conflict {
  std::int32_t before, after;
};

// They come out sorted by `after`, each pair once.
std::vector<Conflict> conflicts_of(const Steps& steps, int segments) {
  std::vector<Conflict> conflicts;
  std::vector<Touch> touches(segments);
  std::vector<std::int32_t> found_for(steps.size(), -1);  // the last step that waits for this one
  for (std::int32_t i = 0; i < std::int32_t(steps.size()); ++i) {
    const auto wait_for = [&](std::int32_t before) {
      if (before < 0 || found_for[before] == i) return;
      found_for[before] = i;
      conflicts.push_back({before, i});
    };
    for (std::int32_t s = steps[i].first; s < steps[i].last; ++s) {
      Touch& touch = touches[s];
      wait_for(touch.writer);
      if (steps[i].verb == Verb::send) {
        touch.readers.push_back(i);
      } else {
        for (const std::int32_t reader : touch.readers) wait_for(reader);
        touch.readers.clear();
        touch.writer = i;
      }
    }
  }
  return conflicts;
}

std::vector<std::int32_t> message_numbers(const Steps& steps) {
  std::int32_t peers = 0;
  for (const Step& step : steps) peers = std::max(peers, step.peer + 1);
  std::vector<std::int32_t> sent(peers), received(peers);
  std::vector<std::int32_t> message;
  message.reserve(steps.size());
  for (const Step& step : steps) {
    message.push_back((step.verb == Verb::send ? sent : received)[step.peer]++);
  }
  return message;
}

}  // namespace

Order order_of(const Steps& steps, int segments) {
  const std::vector<Conflict> conflicts = conflicts_of(steps, segments);
  Order order;
  order.waits.assign(steps.size(), 0);
  order.unlocks_begin.assign(steps.size() + 1, 0);
  for (const Conflict& conflict : conflicts) {
    ++order.waits[conflict.after];
    ++order.unlocks_begin[conflict.before + 1];
  }
  for (std::size_t i = 0; i < steps.size(); ++i) {
    order.unlocks_begin[i + 1] += order.unlocks_begin[i];
  }
  order.unlocks.resize(conflicts.size());
  std::vector<std::int32_t> next = order.unlocks_begin;
  for (const Conflict& conflict : conflicts)
    order.unlocks[next[conflict.before]++] = conflict.after;
  order.message = message_numbers(steps);
  return order;
}

}  // namespace patallreduce::schedule
