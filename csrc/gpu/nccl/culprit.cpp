#include "gpu/nccl/culprit.h"

#include <cstdint>
#include <set>

#include "errors.h"

namespace patallreduce::gpu {

namespace {

// Stages [first, last) of a lane: its lowest group that is not over is one of them. Empty: the lane
// is over.
struct Stages {
  std::int32_t first = 1, last = 0;
};

Stages unfinished(const StreamTicket& ticket, const Device& device, std::int32_t lane) {
  const auto& stages = ticket.program->stages;
  Stages found;
  for (const auto& end : ticket.group_ends) {
    if (end.lane != lane) continue;
    found.last = end.stage + 1;
    if (!device.done(end.event)) break;
    found.first = found.last;
  }
  while (found.first < found.last && !stages[found.first].groups[lane].has_messages) ++found.first;
  return found;
}

}  // namespace

// Names the peers of the lowest group that is not over. Of several any may be the one, or may wait
// for another rank in turn.
Culprit culprit_of(const StreamTicket& ticket, const Device& device, int own) {
  const auto& stages = ticket.program->stages;
  const bool arrived = device.done(ticket.arrival);
  std::int32_t lowest = std::int32_t(stages.size());
  std::set<int> peers;
  bool needs_own = ticket.group_ends.empty();
  for (std::int32_t lane = 0; lane < std::int32_t(ticket.lane_ends.size()); ++lane) {
    const Stages left = unfinished(ticket, device, lane);
    if (left.first >= left.last) continue;
    needs_own = needs_own || stages[left.first].groups[lane].awaited_sums >= 0;
    if (left.first > lowest) continue;
    if (left.first < lowest) peers.clear();
    lowest = left.first;
    for (std::int32_t s = left.first; s < left.last; ++s) {
      for (const auto* transfers : {&stages[s].sends, &stages[s].receives}) {
        for (const Transfer& one : *transfers) {
          if (one.lane == lane) peers.insert(one.peer);
        }
      }
    }
  }
  if (needs_own && !arrived) {
    return {own, concat("rank ", own, "'s own contribution has not come")};
  }
  if (peers.empty()) return {-1, concat("rank ", own, " still sums")};
  std::string listed;
  for (const int peer : peers) listed += concat(listed.empty() ? "" : ", ", peer);
  return {peers.size() == 1 ? *peers.begin() : -1,
          concat("rank ", own, " waits in collective ", ticket.number, ", stage ", lowest, " of ",
                 stages.size() - 1, ", for rank ", listed)};
}

}  // namespace patallreduce::gpu
