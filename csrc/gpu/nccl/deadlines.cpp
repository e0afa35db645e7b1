// At a collective's deadline: which rank holds it up, as far as this rank can see.
#include <cstdint>
#include <set>
#include <string>

#include "errors.h"
#include "gpu/nccl/executor.h"

namespace patallreduce::gpu {

void StreamExecutor::check_deadlines(double now) const {
  for (const auto& ticket : in_flight_) {
    if (now < ticket->deadline_s) continue;
    int rank = -1;
    const std::string where = stuck_at(*in_flight_.front(), rank);
    // The rank that holds all others up says so first.
    if (rank != this->rank() && now < ticket->deadline_s + owner_.patience_s) continue;
    throw TransportTimeout(concat("collective ", ticket->number, " did not end within ",
                                  ticket->call.timeout_s, " s: ", where),
                           rank);
  }
}

// The lowest group that is not over, and with whom. Of several peers any may be the one, or may
// wait for another rank in turn.
std::string StreamExecutor::stuck_at(const StreamTicket& ticket, int& rank) const {
  const auto& stages = ticket.program->stages;
  const bool arrived = device_->done(ticket.arrival);
  std::int32_t stage = std::int32_t(stages.size());
  std::set<int> peers;
  bool needs_own = ticket.passed.empty();
  for (std::int32_t lane = 0; lane < std::int32_t(ticket.last_passed.size()); ++lane) {
    std::int32_t begin = 1, end = 0;  // between two events that are seen to have happened or not
    for (const auto& passed : ticket.passed) {
      if (passed.lane != lane) continue;
      end = passed.stage + 1;
      if (!device_->done(passed.event)) break;
      begin = end;
    }
    while (begin < end && !stages[begin].groups[lane].has_messages) ++begin;
    if (begin >= end) continue;  // the lane is over
    needs_own = needs_own || stages[begin].groups[lane].after >= 0;
    if (begin > stage) continue;
    if (begin < stage) peers.clear();
    stage = begin;
    for (std::int32_t s = begin; s < end; ++s) {
      for (const auto* transfers : {&stages[s].sends, &stages[s].receives}) {
        for (const Transfer& one : *transfers) {
          if (one.lane == lane) peers.insert(one.peer);
        }
      }
    }
  }
  if (!arrived && needs_own) {
    rank = this->rank();
    return concat("rank ", rank, "'s own contribution has not come");
  }
  if (peers.empty()) return concat("rank ", this->rank(), " still sums");
  std::string listed;
  for (const int peer : peers) listed += concat(listed.empty() ? "" : ", ", peer);
  if (peers.size() == 1) rank = *peers.begin();
  return concat("rank ", this->rank(), " waits in collective ", ticket.number, ", stage ", stage,
                " of ", stages.size() - 1, ", for rank ", listed);
}

}  // namespace patallreduce::gpu
