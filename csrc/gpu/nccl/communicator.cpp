#include "gpu/nccl/communicator.h"

#include <algorithm>
#include <chrono>
#include <thread>
#include <utility>

#include "clock.h"
#include "errors.h"

namespace patallreduce::gpu {

bool NcclTeardown::wait(double timeout_s) {
  std::unique_lock lock(mutex_);
  return changed_.wait_for(lock, std::chrono::duration<double>(timeout_s),
                           [this] { return running_ == 0; });
}

void NcclTeardown::one_is_over() {
  std::lock_guard lock(mutex_);
  --running_;
  changed_.notify_all();
}

NcclCommunicator::NcclCommunicator(const NcclLibrary& library, const Device& device,
                                   const PatrNcclUniqueId& id, int rank, int ranks,
                                   double deadline_s)
    : library_(library), device_(device), rank_(rank), ranks_(ranks) {
  PATR_CHECK(ranks >= 1 && rank >= 0 && rank < ranks, std::invalid_argument,
             "NCCL: expected 0 <= rank < ranks, got rank ", rank, " of ", ranks);
  const Device::Current current(device);
  PatrNcclConfig config;
  try {
    const int result = library.ncclCommInitRankConfig(&comm_, ranks, id, rank, &config);
    settle(result, "connection of all ranks", deadline_s);
  } catch (...) {
    abort();
    throw;
  }
}

NcclCommunicator::~NcclCommunicator() { abort(); }

void NcclCommunicator::fail(int result, const char* doing) const {
  throw TransportError(concat("NCCL: rank ", rank_, ": ", doing, ": ",
                              library_.ncclGetErrorString(result), " (",
                              library_.ncclGetLastError(comm_), ")"));
}

void NcclCommunicator::settle(int result, const char* doing, double deadline_s) {
  for (int looks = 0; result == nccl_in_progress; ++looks) {
    if (now_s() >= deadline_s) {
      throw TransportTimeout(concat("NCCL: rank ", rank_, ": ", doing,
                                    ": not all ranks were there before the deadline"));
    }
    // A launch takes microseconds, a connection milliseconds.
    if (looks >= 100) std::this_thread::sleep_for(std::chrono::microseconds(50));
    const int looked = library_.ncclCommGetAsyncError(comm_, &result);
    if (looked != nccl_success) fail(looked, doing);
  }
  if (result != nccl_success) fail(result, doing);
}

void NcclCommunicator::group(const std::vector<NcclMessage>& sends,
                             const std::vector<NcclMessage>& receives, void* stream,
                             double deadline_s) {
  if (sends.empty() && receives.empty()) return;
  const Device::Current current(device_);
  int result = library_.ncclGroupStart();
  if (result != nccl_success) fail(result, "start of a group");
  for (const NcclMessage& message : sends) {
    if (result != nccl_success && result != nccl_in_progress) break;
    result =
        library_.ncclSend(message.memory, message.bytes, nccl_bytes, message.peer, comm_, stream);
  }
  for (const NcclMessage& message : receives) {
    if (result != nccl_success && result != nccl_in_progress) break;
    result =
        library_.ncclRecv(message.memory, message.bytes, nccl_bytes, message.peer, comm_, stream);
  }
  const int ended = library_.ncclGroupEnd();  // also after a failure: groups are the thread's
  if (result != nccl_success && result != nccl_in_progress) fail(result, "a message");
  settle(ended, "a group of messages", deadline_s);
}

void NcclCommunicator::check() {
  int error = nccl_success;
  const int result = library_.ncclCommGetAsyncError(comm_, &error);
  if (result != nccl_success) fail(result, "look at the communicator");
  if (error != nccl_success && error != nccl_in_progress) fail(error, "messages");
}

void NcclCommunicator::abort() noexcept {
  if (comm_ != nullptr) library_.ncclCommAbort(std::exchange(comm_, nullptr));
}

// A thread for each: ncclCommAbort tells the kernels of its communicator first, and then waits.
// (Between ncclGroupStart and ncclGroupEnd it would do for several at once, from NCCL 2.22 on.)
std::shared_ptr<NcclTeardown> NcclCommunicator::tear_down(
    const std::vector<NcclCommunicator*>& all) {
  auto teardown = std::make_shared<NcclTeardown>();
  for (NcclCommunicator* const one : all) {
    if (one->comm_ == nullptr) continue;
    {
      std::lock_guard lock(teardown->mutex_);
      ++teardown->running_;
    }
    const auto destroy =
        one->finished_ ? one->library_.ncclCommDestroy : one->library_.ncclCommAbort;
    // Holds only what lives as long as it may take.
    std::thread([teardown, destroy, device = one->device_, comm = one->comm_] {
      try {
        device.make_current();
      } catch (const CudaError&) {  // which NCCL will meet, too
      }
      destroy(comm);
      teardown->one_is_over();
    }).detach();
    one->comm_ = nullptr;
  }
  return teardown;
}

void NcclCommunicator::finish(double deadline_s) {
  if (comm_ == nullptr) return;
  const Device::Current current(device_);
  settle(library_.ncclCommFinalize(comm_), "the end", deadline_s);
  finished_ = true;
}

}  // namespace patallreduce::gpu
