// Costs O(steps + touched segments + edges): per segment only the last writer and the readers
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

struct Edge {
  std::int32_t before, after;
};

// Edges come out sorted by `after`, each pair once.
std::vector<Edge> conflicts(const Steps& steps, int segments) {
  std::vector<Edge> edges;
  std::vector<Touch> touches(segments);
  std::vector<std::int32_t> found_for(steps.size(), -1);  // the last step that waits for this one
  for (std::int32_t i = 0; i < std::int32_t(steps.size()); ++i) {
    const auto wait_for = [&](std::int32_t before) {
      if (before < 0 || found_for[before] == i) return;
      found_for[before] = i;
      edges.push_back({before, i});
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
  return edges;
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
  const std::vector<Edge> edges = conflicts(steps, segments);
  Order order;
  order.waits.assign(steps.size(), 0);
  order.unlocks_begin.assign(steps.size() + 1, 0);
  for (const Edge& edge : edges) {
    ++order.waits[edge.after];
    ++order.unlocks_begin[edge.before + 1];
  }
  for (std::size_t i = 0; i < steps.size(); ++i) {
    order.unlocks_begin[i + 1] += order.unlocks_begin[i];
  }
  order.unlocks.resize(edges.size());
  std::vector<std::int32_t> next = order.unlocks_begin;
  for (const Edge& edge : edges) order.unlocks[next[edge.before]++] = edge.after;
  order.message = message_numbers(steps);
  return order;
}

}  // namespace patallreduce::schedule
