// Carries an engine's collectives of a GPU's memory over NCCL: calls of the engine like all others.
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

#include <condition_variable>
#include <deque>
#include <memory>
#include <mutex>
#include <vector>

#include "executor/engine.h"
#include "gpu/nccl/executor.h"
#include "gpu/nccl/programs.h"

namespace patallreduce::gpu {

using executor::Call;
using executor::Engine;
using executor::Ticket;

struct NcclTicket {
  std::shared_ptr<StreamTicket> on_streams;
  std::shared_ptr<Ticket> in_engine;
};

class NcclCarrier {
 public:
  NcclCarrier(std::shared_ptr<Engine> engine, std::unique_ptr<Device> device,
              std::vector<std::unique_ptr<NcclCommunicator>> nccl,
              StreamPrograms::ScheduleOf schedule_of);
  // What is in flight ends with an error on all ranks.
  ~NcclCarrier();

  // See StreamExecutor.
  void connect(double timeout_s) { executor_.connect(timeout_s); }

  // Throws ScheduleError, and what StreamExecutor::submit throws.
  std::shared_ptr<NcclTicket> submit(void* home, Call call, void* producer, double timeout_s);
  // The next one, in the order of the calls, that is settled; null after `timeout_s` or at the end.
  std::shared_ptr<NcclTicket> next_done(double timeout_s);
  // What is queued on `stream` from now on runs after the result is there. Waits on the host until
  // the call is settled. Throws what the communicator failed with.
  void join(NcclTicket& ticket, void* stream);
  // Whether the result is there and the call settled, within `slice_s`. Throws likewise.
  bool wait(NcclTicket& ticket, double slice_s);
  void close(double timeout_s);

  StreamExecutor& executor() { return executor_; }

 private:
  class EngineSide;  // what the engine holds of this

  void queue(StreamTicket& ticket, const ScheduleKey& key);
  void note_settled();
  bool settled(const NcclTicket& ticket, double slice_s);
  [[noreturn]] void rethrow() const;

  const std::shared_ptr<Engine> engine_;
  StreamPrograms programs_;

  std::mutex calling_mutex_;  // held over a call, so that streams and engine see one order

  std::mutex settled_mutex_;  // guards these
  std::condition_variable settled_changed_;
  std::deque<std::shared_ptr<NcclTicket>> unreported_;  // not handed out by next_done
  bool closed_ = false;

  const std::shared_ptr<EngineSide> engine_side_;
  StreamExecutor executor_;  // last: its thread uses what is above
};

}  // namespace patallreduce::gpu
