#include "tree_sum/rank_lookup.h"

#include <algorithm>

namespace patallreduce::tree_sum {

RankLookup::RankLookup(std::vector<Index> starts) : starts_(std::move(starts)) {
  const Index elements = starts_.back();
  const Index ranks = starts_.size() - 1;
  while ((elements >> shift_) > 4 * ranks) ++shift_;
  const std::size_t cells = static_cast<std::size_t>(elements >> shift_) + 1;
  std::int32_t rank = 0;
  for (std::size_t cell = 0; cell <= cells; ++cell) {
    const Index x = static_cast<Index>(cell) << shift_;
    while (rank + 1 < static_cast<std::int32_t>(ranks) && starts_[rank + 1] <= x) ++rank;
    first_.push_back(rank);
  }
}

int RankLookup::rank_of(Index x) const {
  const std::size_t cell = static_cast<std::size_t>(x >> shift_);
  const std::int32_t low = first_[cell], high = first_[cell + 1];
  if (high - low <= 1) return starts_[high] <= x ? high : low;
  const auto after =
      std::upper_bound(starts_.begin() + low + 1, starts_.begin() + high + 1, x) - starts_.begin();
  return static_cast<int>(after) - 1;
}

}  // namespace patallreduce::tree_sum
