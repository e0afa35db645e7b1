// Queues one collective on an executor's streams.
#pragma once

#include "gpu/nccl/streams.h"
#include "gpu/nccl/ticket.h"

namespace patallreduce::gpu {

// The ticket has its program. Waits for nothing but connections that are not there yet.
void queue_collective(Streams& streams, StreamTicket& ticket);

}  // namespace patallreduce::gpu
