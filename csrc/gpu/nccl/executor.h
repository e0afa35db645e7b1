// Runs stream programs on one GPU: collectives are queued, in the same order on all ranks, and the
// host goes on.
//
// A collective is submitted with an event behind the work that makes its contribution, and queued
// once it is known what runs. submit() and queue() are called in the same order.
//
// Streams of our own serve all collectives in turn: `sums`, and per lane one for messages, with an
// NCCL communicator of its own (see program.h; most collectives need the first lane only). So
// scratch and shadow exist once, however many are in flight. Events join them to the caller's
// streams: a collective starts after what was queued on the producing stream before submit(), and
// join() makes a consuming stream wait for the result.
//
// A thread watches: it notes when contributions and results are there, takes back the events of
// what has ended, and an error of NCCL or a deadline ends everything with one error, after NCCL has
// been told to give up. What was queued behind then runs with wrong data: whoever uses a result
// asks wait() or throw_if_failed() first.
#pragma once

#include <condition_variable>
#include <exception>
#include <functional>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

#include "gpu/nccl/collectives.h"

namespace patallreduce::gpu {

// Whom an executor serves. Called by its watching thread, without its lock.
struct StreamOwner {
  // Throws what has ended the work of all ranks, if something has.
  std::function<void()> check = [] {};
  // The executor has failed with `failure`, a TransportError. From close(), too.
  std::function<void(std::exception_ptr failure)> failed = [](std::exception_ptr) {};
  // How long it may take to find out what is behind an error of NCCL, or a deadline of another
  // rank.
  double patience_s = 0;
};

class StreamExecutor {
 public:
  // nccl: a communicator per lane, one at least, made in the same order on all ranks.
  StreamExecutor(std::unique_ptr<Device> device,
                 std::vector<std::unique_ptr<NcclCommunicator>> nccl, StreamOwner owner = {});
  ~StreamExecutor();
  StreamExecutor(const StreamExecutor&) = delete;

  // Connects this rank with all ranks, which must call it too: else the first collectives do, one
  // after the other and with the host waiting. Throws TransportTimeout.
  void connect(double timeout_s);

  // `home` must stay valid until the result is there, and be this rank's alone from here on.
  // Throws what the executor failed with; std::invalid_argument for a stream of which a graph is
  // being made.
  std::shared_ptr<StreamTicket> submit(StreamCall call);
  // Waits for nothing but connections that are not there yet. Throws what the executor failed with;
  // std::invalid_argument for a program of another rank, or of more lanes than there are.
  void queue(StreamTicket& ticket, std::shared_ptr<const StreamProgram> program);
  // It is not going to be queued.
  void withdraw(StreamTicket& ticket) noexcept;
  // What is queued on `stream` from now on runs after the result is there. Waits on the host until
  // the collective is queued.
  void join(StreamTicket& ticket, void* stream);
  // Whether the result is there, within `slice_s`. Throws what the executor failed with.
  bool wait(StreamTicket& ticket, double slice_s);
  void throw_if_failed();
  bool failed();

  // Ends everything with `failure`, a TransportError.
  void abort(std::exception_ptr failure);
  // Drains for at most `timeout_s`, then releases everything; of a stream that never gets there the
  // memory stays. Idempotent.
  void close(double timeout_s);

  std::size_t memory_bytes();  // scratch and shadow
  std::size_t events();        // that exist
  int rank() const { return collectives_.streams().rank(); }
  int ranks() const { return collectives_.streams().ranks(); }
  int lanes() const { return int(collectives_.streams().lanes.size()); }

 private:
  void watch();
  void fail(std::exception_ptr failure) noexcept;
  bool finds_result(StreamTicket& ticket);
  void finish_nccl(double deadline_s) noexcept;

  const StreamOwner owner_;

  std::mutex mutex_;  // guards everything below
  std::condition_variable changed_;
  StreamCollectives collectives_;
  std::exception_ptr failure_;
  bool owner_knows_ = false;  // of the failure
  bool closed_ = false;
  std::shared_ptr<NcclTeardown> teardown_;  // null: not begun, or it could not be
  std::thread watcher_;
};

}  // namespace patallreduce::gpu
