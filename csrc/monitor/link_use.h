// What a rank sends while it trains, and how long that takes: so far as it tells how wide ports
// are.
#pragma once

#include <cstdint>
#include <optional>
#include <set>
#include <vector>

#include "monitor/reports.h"
#include "transport/sockets.h"

namespace patallreduce::monitor {

class LinkUse {
 public:
  // By rank, where each listens; as of Transport.
  explicit LinkUse(const std::vector<std::set<transport::End>>& ends) : watch_(ends) {}

  // At the start of an iteration: what was sent since the last report. Nothing while that took too
  // little time for the kernel's clock, or cannot be known.
  std::optional<LinkUsed> sample(const IterationId& id);

 private:
  transport::SocketWatch watch_;
  std::vector<transport::Sent> before_;
  IterationId since_;
};

}  // namespace patallreduce::monitor
