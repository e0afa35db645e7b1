// Point to point over NCCL: groups of sends and receives on a stream.
//
// A communicator of our own, which does not block: whatever waits for other ranks on the host can
// be given up at a deadline. The k-th message to a peer goes into the peer's k-th receive from
// here.
#pragma once

#include <condition_variable>
#include <cstddef>
#include <memory>
#include <mutex>
#include <vector>

#include "gpu/device/device.h"
#include "gpu/nccl/library.h"

namespace patallreduce::gpu {

struct NcclMessage {
  int peer;
  void* memory;  // of the device
  std::size_t bytes;
};

// Several communicators that are being ended.
class NcclTeardown {
 public:
  // Whether it is over, within `timeout_s`.
  bool wait(double timeout_s);

 private:
  friend class NcclCommunicator;
  void one_is_over();

  std::mutex mutex_;
  std::condition_variable changed_;
  int running_ = 0;
};

// Not thread-safe. Throws TransportError and TransportTimeout, naming this rank in words; which
// rank is to blame NCCL does not say.
class NcclCommunicator {
 public:
  // Waits for all ranks until now_s() is `deadline_s`. `id`: the same on all, of one unique_id().
  NcclCommunicator(const NcclLibrary& library, const Device& device, const PatrNcclUniqueId& id,
                   int rank, int ranks, double deadline_s);
  ~NcclCommunicator();
  NcclCommunicator(const NcclCommunicator&) = delete;

  // Queues a group. The first messages between two ranks connect them, for which the host waits
  // until `deadline_s`.
  void group(const std::vector<NcclMessage>& sends, const std::vector<NcclMessage>& receives,
             void* stream, double deadline_s);
  // Throws if NCCL has found an error meanwhile.
  void check();
  // Waits for what is queued. Then only tear_down() is left.
  void finish(double deadline_s);
  // Ends several, with nobody waiting; what is queued on those that are not finished ends with no
  // promise about its data. NCCL waits for what is queued on a communicator, which may wait, by an
  // event, for what is queued on another one, or for a contribution that is never there; and for
  // the other ranks of this machine to end theirs.
  static std::shared_ptr<NcclTeardown> tear_down(const std::vector<NcclCommunicator*>& all);

  int rank() const { return rank_; }
  int ranks() const { return ranks_; }
  const NcclLibrary& library() const { return library_; }

 private:
  // What a call returned, or, while it is in progress, what becomes of it.
  void settle(int result, const char* doing, double deadline_s);
  // Ends what is queued, with no promise about its data, and waits for it.
  void abort() noexcept;
  [[noreturn]] void fail(int result, const char* doing) const;

  const NcclLibrary& library_;  // never closed
  const Device& device_;
  const int rank_, ranks_;
  PatrNcclComm* comm_ = nullptr;
  bool finished_ = false;
};

}  // namespace patallreduce::gpu
