#include "tree_sum/messages.h"

#include "tree_sum/rank_lookup.h"

namespace patallreduce::tree_sum {

namespace {

constexpr std::size_t most_roots = 4;
constexpr int longest_wait_level = 6;  // 64 elements

}  // namespace

std::vector<TreeMessage> tree_messages(const std::vector<std::int64_t>& counts) {
  const std::vector<Index> starts = start_indices(counts);
  std::vector<TreeMessage> messages;
  if (counts.empty()) return messages;
  const RankLookup lookup(starts);
  for (int rank = 0; rank < static_cast<int>(counts.size()); ++rank) {
    bool open = false;
    for (const Index root : outbound_roots(starts[rank], starts[rank + 1])) {
      const int to = lookup.rank_of(parent(root));
      if (max_y(root) > longest_wait_level) open = false;
      if (!open || messages.back().to != to || messages.back().roots.size() == most_roots)
        messages.push_back({rank, to, {}});
      messages.back().roots.push_back(root);
      open = true;
    }
  }
  return messages;
}

}  // namespace patallreduce::tree_sum
