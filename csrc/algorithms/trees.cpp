#include "algorithms/trees.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "algorithms/algorithms.h"
#include "algorithms/powers.h"

namespace patallreduce::algorithms {

using schedule::part;
using schedule::Verb;

// `chains` <= ranks - 1 are used; one child each where there are as many.
Family chain_family(int ranks, int place, int chains) {
  Family family;
  const int others = ranks - 1;
  chains = std::min(chains, others);
  for (int j = 0; j < chains; ++j) {
    const Part run = part(j, chains, others);
    const int first = run.first + 1, last = run.last + 1;  // places
    if (place == 0) family.children.push_back(first);
    if (place < first || place >= last) continue;
    family.parent = place == first ? 0 : place - 1;
    if (place + 1 < last) family.children.push_back(place + 1);
  }
  return family;
}

// The places of depth d are 2^d - 1 .. 2^(d+1) - 2.
Family binary_family(int ranks, int place) {
  Family family;
  const int width = power_of_two_within(place + 1);
  if (place > 0) family.parent = width / 2 - 1 + (place + 1 - width) % (width / 2);
  for (const int child : {place + width, place + 2 * width})
    if (child < ranks) family.children.push_back(child);
  return family;
}

Family in_order_binary_family(int ranks, int rank) {
  Family family;
  int first = 0, last = ranks;
  while (rank != last - 1) {
    family.parent = last - 1;
    const int middle = first + (last - first) / 2;
    if (rank < middle) {
      last = middle;
    } else {
      first = middle;
      --last;
    }
  }
  const int middle = first + (last - first) / 2;
  if (middle < last - 1) family.children.push_back(last - 2);
  if (first < middle) family.children.push_back(middle - 1);
  return family;
}

Part binomial_subtree(int ranks, int place) {
  return {place, place == 0 ? ranks : std::min(ranks, place + (place & -place))};
}

Family binomial_family(int ranks, int place) {
  Family family;
  if (place > 0) family.parent = place & (place - 1);
  const int end = binomial_subtree(ranks, place).last;
  for (int distance = 1; place + distance < end; distance *= 2)
    family.children.push_back(place + distance);
  return family;
}

Family falling_binomial_family(int ranks, int place) {
  Family family = binomial_family(ranks, place);
  std::reverse(family.children.begin(), family.children.end());
  return family;
}

Family rooted(Family family, int root, int ranks) {
  if (family.parent >= 0) family.parent = rank_of(family.parent, root, ranks);
  for (int& child : family.children) child = rank_of(child, root, ranks);
  return family;
}

void sum_up(Steps& steps, const Family& family, int segment) {
  for (const int child : family.children)
    steps.push_back({Verb::recv_reduce, child, segment, segment + 1});
  if (family.parent >= 0) steps.push_back({Verb::send, family.parent, segment, segment + 1});
}

void hand_down(Steps& steps, const Family& family, int segment) {
  if (family.parent >= 0) steps.push_back({Verb::recv, family.parent, segment, segment + 1});
  for (const int child : family.children)
    steps.push_back({Verb::send, child, segment, segment + 1});
}

Steps reduce_along(const Family& family, int segments) {
  Steps steps;
  for (int s = 0; s < segments; ++s) sum_up(steps, family, s);
  return steps;
}

Steps reduce_by_child(const Family& family, int segments) {
  Steps steps;
  for (const int child : family.children)
    for (int s = 0; s < segments; ++s) steps.push_back({Verb::recv_reduce, child, s, s + 1});
  if (family.parent >= 0)
    for (int s = 0; s < segments; ++s) steps.push_back({Verb::send, family.parent, s, s + 1});
  return steps;
}

Steps broadcast_along(const Family& family, int segments) {
  Steps steps;
  for (int s = 0; s < segments; ++s) hand_down(steps, family, s);
  return steps;
}

std::int64_t chain_segments(int ranks, const Bucket& bucket, const Link& link) {
  return pipelined(std::max(ranks - 2, 1), transfer_s(bucket, link), bucket, link);
}

// A level counts once: it takes two messages, but so does every segment.
std::int64_t binary_segments(int ranks, const Bucket& bucket, const Link& link) {
  return pipelined(std::max(std::log2(ranks) - 1, 1.0), transfer_s(bucket, link), bucket, link);
}

}  // namespace patallreduce::algorithms
