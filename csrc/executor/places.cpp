#include "executor/places.h"

#include <algorithm>

namespace patallreduce::executor {

std::vector<std::pair<int, std::vector<Place>>> Places::arrived(std::uint64_t seq, int rank) {
  std::vector<std::int32_t>& chain = chains_[seq];
  if (std::find(chain.begin(), chain.end(), rank) != chain.end()) return {};
  const auto place = static_cast<std::int32_t>(chain.size());
  chain.push_back(rank);
  const std::int32_t last = ranks_ - 1;
  std::vector<std::pair<int, std::vector<Place>>> news;
  if (place < last || place == 0) news.push_back({rank, {{place, rank}}});
  if (place > 0 && place < last) {
    news.back().second.push_back({place - 1, chain[place - 1]});
    if (chain[place - 1] != keeper || place == last - 1)
      news.push_back({chain[place - 1], {{place, rank}}});
  }
  if (place > 1 && chain[place - 2] == keeper && place < last)
    news.push_back({keeper, {{place - 1, chain[place - 1]}}});
  if (place == last - 1) {
    std::int64_t missing = static_cast<std::int64_t>(last) * ranks_ / 2;
    for (const std::int32_t present : chain) missing -= present;
    const Place end{last, static_cast<std::int32_t>(missing)};
    news.push_back({rank, {end}});
    if (place > 0) news.push_back({chain[0], {end}});
    news.push_back({end.rank, {{0, chain[0]}, {place, rank}, end}});
  }
  if (place == last) chains_.erase(seq);
  std::stable_partition(news.begin(), news.end(),
                        [](const auto& told) { return told.first != keeper; });
  return news;
}

}  // namespace patallreduce::executor
