// Strongly connected components of a small graph: what must happen together.
#pragma once

#include <cstdint>
#include <vector>

namespace patallreduce::schedule {

// Edges of node n: to[begin[n] .. begin[n + 1]).
struct Graph {
  std::vector<std::int32_t> begin;
  std::vector<std::int32_t> to;

  int nodes() const { return int(begin.size()) - 1; }
};

// component[n]: two nodes share a number if each reaches the other. Numbers run from 0 on, and an
// edge between components leads from the larger number to the smaller one.
// Source: Tarjan, SIAM J. Comput. 1 (1972), 146-160, without recursion. Linear in nodes and edges.
std::vector<std::int32_t> components_of(const Graph& graph);

}  // namespace patallreduce::schedule
