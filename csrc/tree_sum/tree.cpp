#include "tree_sum/tree.h"

#include <algorithm>
#include <stdexcept>

#include "errors.h"

namespace patallreduce::tree_sum {

std::vector<Block> blocks(Index begin, Index end) {
  std::vector<Block> found;
  while (begin < end) {
    const int fits = 63 - __builtin_clzll(end - begin);
    const int level = begin == 0 ? fits : std::min(fits, max_y(begin));
    found.push_back({begin, level});
    begin += Index(1) << level;
  }
  return found;
}

std::vector<Index> start_indices(const std::vector<std::int64_t>& counts) {
  std::vector<Index> starts{0};
  for (std::size_t rank = 0; rank < counts.size(); ++rank) {
    PATR_CHECK(counts[rank] >= 0, std::invalid_argument, "distribution: expected counts >= 0, got ",
               counts[rank], " for rank ", rank);
    starts.push_back(starts.back() + static_cast<Index>(counts[rank]));
    PATR_CHECK(starts.back() <= Index(INT64_MAX), std::invalid_argument, "distribution: more than ",
               INT64_MAX, " elements at rank ", rank);
  }
  return starts;
}

std::vector<Index> outbound_roots(Index begin, Index end) {
  std::vector<Index> roots;
  if (begin == 0) return roots;
  while (begin < end) {
    roots.push_back(begin);
    begin += Index(1) << max_y(begin);  // past the largest index of its subtree
  }
  return roots;
}

std::uint64_t message_count(const std::vector<std::int64_t>& counts) {
  const std::vector<Index> starts = start_indices(counts);
  std::uint64_t messages = 0;
  for (std::size_t rank = 0; rank < counts.size(); ++rank)
    messages += outbound_roots(starts[rank], starts[rank + 1]).size();
  return messages;
}

}  // namespace patallreduce::tree_sum
