#include "gpu/nccl/streams.h"

#include <algorithm>
#include <chrono>
#include <thread>
#include <utility>

#include "clock.h"
#include "errors.h"

namespace patallreduce::gpu {

Streams::Streams(std::unique_ptr<Device> device_,
                 std::vector<std::unique_ptr<NcclCommunicator>> nccl)
    : device(std::move(device_)), events(*device), scratch(*device), shadow(*device) {
  PATR_CHECK(!nccl.empty(), std::invalid_argument, "streams: expected lanes, got none");
  for (auto& communicator : nccl) {
    lanes.push_back({std::move(communicator), device->create_stream()});
  }
  sums = device->create_stream();
}

void Streams::connect(double timeout_s) {
  for (Lane& lane : lanes) connect(lane, timeout_s);
}

void Streams::connect(Lane& lane, double timeout_s) {
  const double deadline_s = now_s() + timeout_s;
  const std::size_t each = 256;  // bytes apart: the peers' messages of one byte do not share a line
  scratch.provide(2 * each * ranks());
  void* const event = events.take();
  events.give(event);  // nobody else takes it before this returns
  std::vector<NcclMessage> sends, receives;
  for (int peer = 0; peer < ranks(); ++peer) {
    if (peer == rank()) continue;
    sends.push_back({peer, scratch.address() + each * peer, 1});
    receives.push_back({peer, scratch.address() + each * (ranks() + peer), 1});
  }
  lane.nccl->group(sends, receives, lane.messages, deadline_s);
  device->record(event, lane.messages);
  while (!device->done(event)) {
    lane.nccl->check();
    PATR_CHECK(now_s() < deadline_s, TransportTimeout, "rank ", rank(),
               ": not all ranks connected within ", timeout_s, " s");
    std::this_thread::sleep_for(std::chrono::microseconds(100));
  }
}

void Streams::check() const {
  for (const Lane& lane : lanes) lane.nccl->check();
}

void Streams::take_back(std::vector<void*>& ended) {
  const auto forget = [&](void*& event) {
    if (std::find(ended.begin(), ended.end(), event) != ended.end()) event = nullptr;
  };
  for (Lane& lane : lanes) forget(lane.end);
  forget(sums_end);
  for (void* const event : ended) events.give(event);
  ended.clear();
}

std::shared_ptr<NcclTeardown> Streams::tear_down() noexcept {
  try {
    std::vector<NcclCommunicator*> all;
    for (Lane& lane : lanes) all.push_back(lane.nccl.get());
    return NcclCommunicator::tear_down(all);
  } catch (const std::exception&) {  // no memory, or no more threads
    return nullptr;
  }
}

void Streams::release(bool hangs) noexcept {
  events.release();
  for (Lane& lane : lanes) device->destroy_stream(lane.messages);
  device->destroy_stream(sums);
  for (GrowingMemory* const memory : {&scratch, &shadow}) {
    hangs ? memory->abandon() : memory->release();
  }
}

}  // namespace patallreduce::gpu
