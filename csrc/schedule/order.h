// The ordering rule as data: which steps of one rank wait for which.
#pragma once

#include <cstdint>
#include <vector>

#include "schedule/schedule.h"

namespace patallreduce::schedule {

struct Order {
  // waits[i]: how many earlier steps step i waits for directly (per segment: the last writer,
  // and, if i writes, the readers since that writer; each earlier step counted once).
  std::vector<std::int32_t> waits;
  // Steps that wait for step i: unlocks[unlocks_begin[i] .. unlocks_begin[i + 1]).
  std::vector<std::int32_t> unlocks_begin;
  std::vector<std::int32_t> unlocks;
  // message[i]: step i is the message[i]-th message (from 0) between this rank and its peer in
  // its direction. Sender and receiver count alike, so the number identifies the message.
  std::vector<std::int32_t> message;
};

// Expects segments in 0..segments and peers >= 0: what schedule/messages.h checks.
Order order_of(const Steps& steps, int segments);

}  // namespace patallreduce::schedule
