// At a collective's deadline: which rank holds it up, as far as this rank can see.
#pragma once

#include <string>

#include "gpu/device/device.h"
#include "gpu/nccl/ticket.h"

namespace patallreduce::gpu {

struct Culprit {
  int rank = -1;  // -1: none can be named
  std::string why;
};

// Of a queued collective that has not ended, on rank `own`.
Culprit culprit_of(const StreamTicket& ticket, const Device& device, int own);

}  // namespace patallreduce::gpu
