// Runs stream programs on one GPU: collectives are queued, in the same order on all ranks, and the
// host goes on.
//
// A collective arrives, with an event behind the work that makes its contribution, and is queued
// once it is known what runs; collectives are queued in the order of their arrival.
//
// Streams of our own serve all collectives in turn: `sums`, and per lane one for messages, with an
// NCCL communicator of its own (see program.h; most collectives need the first lane only). So
// scratch and shadow exist once, however many are in flight. Events join them to the caller's
// streams: a collective starts after what was queued on the producing stream before arrive(), and
// join() makes a consuming stream wait for the result.
//
// A thread watches: it notes when contributions and results came, what has ended gives its events
// back, and an error of NCCL or a deadline ends everything with one error, after NCCL has been told
// to give up. What was queued behind then runs with wrong data: whoever uses a result asks wait()
// or throw_if_failed() first.
#pragma once

#include <atomic>
#include <condition_variable>
#include <deque>
#include <exception>
#include <functional>
#include <memory>
#include <mutex>
#include <thread>
#include <utility>
#include <vector>

#include "gpu/device/device.h"
#include "gpu/nccl/nccl.h"
#include "gpu/nccl/program.h"
#include "reduction/reduction.h"

namespace patallreduce::gpu {

using reduction::Dtype;
using reduction::Op;

struct StreamCall {
  void* home = nullptr;  // this rank's contribution, and where the result goes; of the device
  std::uint64_t count = 0;
  Dtype dtype = Dtype::float32;
  Op op = Op::sum;
  void* producer = nullptr;  // the stream that makes the contribution
  double timeout_s = 0;      // from its arrival until nothing of it is left
};

// One collective in flight; belongs to its executor.
struct StreamTicket {
  StreamCall call;
  std::shared_ptr<const StreamProgram> program;
  std::uint64_t number = 0;
  double deadline_s = 0;
  bool queued = false;
  bool has_result = false;  // seen on the host, before any failure
  bool drained = false;     // its events are gone
  // When the contribution and the result were seen to be there; 0: not yet.
  std::atomic<double> arrival_s{0}, finish_s{0};
  void* arrival = nullptr;  // events
  void* result = nullptr;
  void* summed = nullptr;  // behind all its sums
  struct Passed {
    std::int32_t lane, stage;
    void* event;  // behind that group
  };
  std::vector<Passed> passed;      // in the order of the stages; not every group has an event
  std::vector<void*> last_passed;  // [lane]: behind its last group, null: it has none
  std::vector<void*> events;       // all of them
};

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
  StreamExecutor(std::unique_ptr<StreamDevice> device, std::vector<std::unique_ptr<Nccl>> nccl,
                 StreamOwner owner = {});
  ~StreamExecutor();
  StreamExecutor(const StreamExecutor&) = delete;

  // Connects this rank with all ranks, which must call it too: else the first collectives do, one
  // after the other and with the host waiting. Throws TransportTimeout.
  void connect(double timeout_s);

  // `home` must stay valid until the result is there, and be this rank's alone from here on.
  // Throws what the executor failed with; std::invalid_argument for a stream of which a graph is
  // being made.
  std::shared_ptr<StreamTicket> arrive(StreamCall call);
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
  int rank() const { return lanes_[0].nccl->rank(); }
  int ranks() const { return lanes_[0].nccl->ranks(); }
  int lanes() const { return int(lanes_.size()); }

 private:
  struct Block {
    std::byte* memory = nullptr;
    std::size_t bytes = 0;
  };
  struct Lane {
    std::unique_ptr<Nccl> nccl;
    void* messages = nullptr;     // its stream
    void* last_passed = nullptr;  // behind what was queued there last, while that is in flight
  };
  class Queueing;  // one collective, as it is queued

  void connect_lane(Lane& lane, double timeout_s);
  void watch();
  void look(double now);
  void note_times(double now);
  void check_deadlines(double now) const;
  void fail(std::exception_ptr failure) noexcept;
  void end_nccl() noexcept;
  void retire(StreamTicket& ticket);
  bool has_drained(const StreamTicket& ticket) const;
  // Where it hangs; `rank` to blame, -1: none can be named.
  std::string stuck_at(const StreamTicket& ticket, int& rank) const;
  bool finds_result(StreamTicket& ticket);
  std::deque<std::shared_ptr<StreamTicket>>::iterator find_called(const StreamTicket& ticket);
  void* take_event();
  void provide(Block& block, std::size_t bytes);
  void release_all() noexcept;

  const std::unique_ptr<StreamDevice> device_;
  std::vector<Lane> lanes_;  // their streams and communicators stay the same
  const StreamOwner owner_;

  std::mutex mutex_;  // guards everything below
  std::condition_variable changed_;
  void* sums_ = nullptr;                                 // a stream
  std::deque<std::shared_ptr<StreamTicket>> called_;     // not queued yet
  std::deque<std::shared_ptr<StreamTicket>> in_flight_;  // queued
  std::uint64_t next_number_ = 0;
  void* last_summed_ = nullptr;  // behind the sums that were queued last, while they are in flight
  Block scratch_, shadow_;
  std::vector<Block> outgrown_;  // still used by what is in flight
  std::vector<void*> free_events_;
  std::size_t event_count_ = 0;
  std::exception_ptr failure_;
  std::shared_ptr<NcclEnding> ending_;
  bool hangs_ = false;            // NCCL has not ended it: some stream goes on for ever
  std::exception_ptr suspicion_;  // what NCCL has reported
  double suspicion_s_ = 0;
  bool told_ = false;  // the owner, of the failure
  bool closed_ = false;
  std::thread watcher_;
};

}  // namespace patallreduce::gpu
