#include "monitor/link_use.h"

#include <algorithm>
#include <utility>

namespace patallreduce::monitor {

namespace {

using transport::Sent;

constexpr double least_busy_s = 0.05;     // the kernel counts in ticks of some milliseconds
constexpr double least_share = 1.0 / 16;  // of the largest flow; smaller ones tell nothing

}  // namespace

std::optional<LinkUsed> LinkUse::sample(const IterationId& id) {
  if (!watch_.watches()) return std::nullopt;
  std::vector<Sent> now = watch_.sent();
  if (before_.empty() || id.loop != since_.loop) {  // of another loop: nobody knows what ran
    before_ = std::move(now);
    since_ = id;
    return std::nullopt;
  }
  LinkUsed used{id, since_.iteration, {}};
  double most_bytes = 0, most_busy_s = 0;
  for (std::size_t rank = 0; rank < now.size(); ++rank) {
    const bool closed = now[rank].bytes < before_[rank].bytes;
    const double bytes = closed ? 0 : static_cast<double>(now[rank].bytes - before_[rank].bytes);
    const double busy_s = now[rank].busy_s - before_[rank].busy_s;
    if (bytes <= 0 || busy_s <= 0) continue;
    used.flows.push_back({static_cast<int>(rank), bytes, busy_s});
    most_bytes = std::max(most_bytes, bytes);
    most_busy_s = std::max(most_busy_s, busy_s);
  }
  if (most_busy_s < least_busy_s) return std::nullopt;
  used.flows.erase(
      std::remove_if(used.flows.begin(), used.flows.end(),
                     [&](const Flow& flow) { return flow.bytes < least_share * most_bytes; }),
      used.flows.end());
  before_ = std::move(now);
  since_ = id;
  return used;
}

}  // namespace patallreduce::monitor
