// What the collectives of one executor share on its GPU: a stream of sums, a lane of messages per
// NCCL communicator, events, and memory that grows with the largest message.
//
// Not thread-safe, but for what never changes: device, rank, ranks and the number of lanes.
#pragma once

#include <memory>
#include <vector>

#include "gpu/device/device.h"
#include "gpu/device/events.h"
#include "gpu/device/growing_memory.h"
#include "gpu/nccl/communicator.h"

namespace patallreduce::gpu {

struct Lane {
  std::unique_ptr<NcclCommunicator> nccl;
  void* messages = nullptr;  // its stream
  void* end = nullptr;       // behind the group queued last, while its collective is in flight
};

struct Streams {
  // nccl: a communicator per lane, one at least.
  Streams(std::unique_ptr<Device> device, std::vector<std::unique_ptr<NcclCommunicator>> nccl);
  Streams(const Streams&) = delete;

  // Connects this rank with all ranks, which must call it too. Throws what NCCL fails with, and
  // TransportTimeout.
  void connect(double timeout_s);
  // Throws if NCCL has found an error.
  void check() const;
  // The collective with these events has left the streams.
  void take_back(std::vector<void*>& events);
  // Lets NCCL end everything, with nobody waiting for it; null where that was not possible.
  std::shared_ptr<NcclTeardown> tear_down() noexcept;
  // Destroys streams and events. `hangs`: some stream never gets there, so the memory stays.
  void release(bool hangs) noexcept;

  int rank() const { return lanes[0].nccl->rank(); }
  int ranks() const { return lanes[0].nccl->ranks(); }

  const std::unique_ptr<Device> device;
  std::vector<Lane> lanes;
  void* sums = nullptr;      // a stream
  void* sums_end = nullptr;  // behind the sums queued last, while their collective is in flight
  EventPool events;
  GrowingMemory scratch, shadow;

 private:
  void connect(Lane& lane, double timeout_s);
};

}  // namespace patallreduce::gpu
