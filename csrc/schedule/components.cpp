#include "schedule/components.h"

#include <algorithm>

namespace patallreduce::schedule {

std::vector<std::int32_t> components_of(const Graph& graph) {
  constexpr std::int32_t none = -1;
  const int nodes = graph.nodes();
  std::vector<std::int32_t> component(nodes, none), found(nodes, none), lowest(nodes);
  std::vector<std::int32_t> next = graph.begin;  // per node: the edge to follow next
  std::vector<std::int32_t> path, open;          // open: found, and in no component yet
  std::int32_t components = 0, visited = 0;
  for (std::int32_t start = 0; start < nodes; ++start) {
    if (found[start] != none) continue;
    path.push_back(start);
    while (!path.empty()) {
      const std::int32_t node = path.back();
      if (found[node] == none) {
        found[node] = lowest[node] = visited++;
        open.push_back(node);
      }
      if (next[node] < graph.begin[node + 1]) {
        const std::int32_t to = graph.to[next[node]++];
        if (found[to] == none) {
          path.push_back(to);
        } else if (component[to] == none) {
          lowest[node] = std::min(lowest[node], found[to]);
        }
        continue;
      }
      path.pop_back();
      if (!path.empty()) lowest[path.back()] = std::min(lowest[path.back()], lowest[node]);
      if (lowest[node] < found[node]) continue;
      for (std::int32_t member = none; member != node;) {
        member = open.back();
        open.pop_back();
        component[member] = components;
      }
      ++components;
    }
  }
  return component;
}

}  // namespace patallreduce::schedule
