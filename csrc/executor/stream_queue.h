// Who queues an engine's collectives of Carrier::streams on a GPU's streams.
//
// The engine moves no data of them: it settles what runs, compares the calls of all ranks, and
// finds ranks that are gone or silent. To that end it runs a barrier whose messages are tagged with
// all of the call; it is over once every rank has called alike.
#pragma once

#include "executor/call.h"

namespace patallreduce::executor {

class StreamQueue {
 public:
  virtual ~StreamQueue() = default;

  // Makes what a call of this schedule needs before it comes. Throws ScheduleError.
  virtual void prepare(const ScheduleKey& key) = 0;
  // This rank has arrived, in the order of its calls, and `key` is what runs. Waits for no rank.
  // What it throws ends the communicator on all ranks.
  virtual void queue(void* data, const ScheduleKey& key) = 0;
};

}  // namespace patallreduce::executor
