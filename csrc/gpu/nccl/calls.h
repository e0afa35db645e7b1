// All-reduces of a GPU's memory, called like all others of an engine.
//
//   submit    an event behind the contribution; the engine hears of the call
//   queue     the engine says what runs, and the streams are given it: the rank need not have the
//             contribution yet, nor any other rank have called
//   settled   every rank has called alike, or all of them have the same error
//
// A result counts once its call is settled: of calls that differ NCCL could make one wrong sum. No
// rank's host is held up by that for long, since no result can be there before all have called.
// Whatever ends the engine ends the streams, and the other way round, so that a rank that dies is
// named as in all other collectives.
#pragma once

#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <set>

#include "executor/engine.h"
#include "executor/programs.h"
#include "gpu/nccl/executor.h"

namespace patallreduce::gpu {

using executor::Call;
using executor::Engine;
using executor::Ticket;
using schedule::Schedule;
using schedule::ScheduleKey;

struct StreamWork {
  std::shared_ptr<StreamTicket> stream_ticket;
  std::shared_ptr<Ticket> engine_ticket;
};

class StreamCalls {
 public:
  // All ranks' steps. Throws ScheduleError.
  using ScheduleOf = std::function<Schedule(const ScheduleKey& key, int ranks)>;

  StreamCalls(std::shared_ptr<Engine> engine, std::unique_ptr<StreamDevice> device,
              std::vector<std::unique_ptr<Nccl>> nccl, ScheduleOf schedule_of);
  // What is in flight ends with an error on all ranks.
  ~StreamCalls();

  // See StreamExecutor.
  void connect(double timeout_s) { executor_.connect(timeout_s); }

  // Throws ScheduleError, and what StreamExecutor::arrive throws.
  std::shared_ptr<StreamWork> submit(void* home, Call call, void* producer, double timeout_s);
  // The next one, in the order of the calls, that is settled; null after `timeout_s` or at the end.
  std::shared_ptr<StreamWork> next_done(double timeout_s);
  // What is queued on `stream` from now on runs after the result is there. Waits on the host until
  // it is settled. Throws what the communicator failed with.
  void join(StreamWork& work, void* stream);
  // Whether the result is there and settled, within `slice_s`. Throws likewise.
  bool wait(StreamWork& work, double slice_s);
  void close(double timeout_s);

  StreamExecutor& executor() { return executor_; }

 private:
  class Door;  // what the engine holds of this

  void prepare(const ScheduleKey& key);
  void queue(StreamTicket& ticket, const ScheduleKey& key);
  void note_settled();
  std::shared_ptr<const StreamProgram> program(const ScheduleKey& key, bool scales);
  bool settled(const StreamWork& work, double until_s);
  [[noreturn]] void rethrow() const;

  const std::shared_ptr<Engine> engine_;
  const ScheduleOf schedule_of_;

  std::mutex calling_mutex_;                       // held over a call, so that all see one order
  std::deque<std::shared_ptr<StreamWork>> works_;  // not handed out by next_done; guarded by it

  std::mutex settled_mutex_;  // guards this
  std::condition_variable settled_changed_;
  std::uint64_t settled_ = 0;
  bool closed_ = false;

  executor::KeptPrograms<StreamProgram, bool> programs_;  // by key, and whether they scale
  std::mutex scales_mutex_;                               // guards this
  std::set<bool> scales_;                                 // that calls had

  const std::shared_ptr<Door> door_;
  StreamExecutor executor_;  // last: its thread uses what is above
};

}  // namespace patallreduce::gpu
