// Carries an engine's collectives on a GPU's memory, queued like work of a stream: the host goes
// on.
//
//   producing stream   ... backward |event
//   out                             \-> copy to pinned memory |event
//   engine                                                    \-> the schedule, on the host ->|
//   back                                                      copy to the GPU |event <--------/
//   consuming stream                                          optimizer ... <-/
//
// Staged, as drawn, the engine works on pinned memory, and every transport and all of the
// arrival-aware machinery serve a GPU. Each way a copy crosses the GPU's bus once, which is cheap
// where the network is much slower than the bus. Direct, there are no copies, and the engine works
// on the GPU's memory itself (device/arithmetic.h), over a transport that moves such memory.
//
// A thread looks at events with pauses of 20 to 200 us and tells the engine when a contribution is
// there: so a call's arrival is the GPU's, and not when the work was queued. Calls are numbered by
// submit(), among all others of the engine, on all ranks alike; results come back in any order.
//
// Fails as one: an error of CUDA, of the engine, or a contribution that is not there by its
// deadline ends the engine, on all ranks, and everything that has no result yet.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <deque>
#include <exception>
#include <memory>
#include <mutex>
#include <string>
#include <thread>

#include "executor/engine.h"
#include "gpu/device/device.h"
#include "gpu/staged/copies.h"
#include "gpu/staged/ticket.h"
#include "gpu/staged/wakeup.h"

namespace patallreduce::gpu {

using executor::Engine;

class StagedCarrier {
 public:
  // Direct: makes `device` the engine's, see Engine::set_device.
  StagedCarrier(std::shared_ptr<Engine> engine, std::shared_ptr<const Device> device, bool direct);
  ~StagedCarrier();
  StagedCarrier(const StagedCarrier&) = delete;

  // Returns at once. `home`, memory of the device, has the contribution when `producer` has passed
  // what is queued there; it must stay valid until the result is there, and be this rank's alone.
  // Who carries the call is set here. `queued`: next_done() is to return the ticket.
  // Throws what everything failed with; std::invalid_argument for a stream of which a graph is
  // being made; ScheduleError.
  std::shared_ptr<StagedTicket> submit(void* home, Call call, void* producer, double timeout_s,
                                       bool queued);
  // The next ticket, in the order of submit(), that join() need not wait for or that failed; null
  // after `timeout_s`, or at the end.
  std::shared_ptr<StagedTicket> next_done(double timeout_s);
  // Whether join() need not wait, within `slice_s`. Throws what the ticket failed with.
  bool joinable(const StagedTicket& ticket, double slice_s);
  // What is queued on `stream` from now on runs after the result is there. Of a joinable ticket.
  void join(const StagedTicket& ticket, void* stream);
  // Whether the result is there, within `slice_s`. Throws what the ticket failed with.
  bool wait(const StagedTicket& ticket, double slice_s);

  // Ends everything with `why`, on all ranks.
  void abort(const std::string& why);
  // Waits for what is in flight for at most `timeout_s`, then releases everything. Before the
  // engine is closed. Memory that a stream which never gets there may still write to is not
  // released. Idempotent.
  void close(double timeout_s);

  std::size_t memory_bytes();  // pinned
  std::size_t events();        // that exist

 private:
  using Phase = StagedTicket::Phase;
  using Lock = std::unique_lock<std::mutex>;

  void serve();
  bool look();
  bool advance(StagedTicket& ticket);
  void check_deadline(const StagedTicket& ticket);
  void finish(StagedTicket& ticket);
  void fail(std::exception_ptr failure);
  void fail(StagedTicket& ticket);
  bool reaches(const StagedTicket& ticket, Phase phase, double slice_s);

  const std::shared_ptr<Engine> engine_;
  const std::shared_ptr<const Device> device_;
  const bool direct_;
  // Wakes the thread. Shared with the engine, which may outlive this.
  const std::shared_ptr<Wakeup> wakeup_ = std::make_shared<Wakeup>();

  std::mutex mutex_;  // guards everything below
  std::condition_variable changed_;
  StagedCopies copies_;
  std::deque<std::shared_ptr<StagedTicket>> in_flight_;
  std::deque<std::shared_ptr<StagedTicket>> unreported_;  // next_done() has not returned them
  std::uint64_t next_number_ = 0;
  std::exception_ptr failure_;
  bool closing_ = false;
  bool closed_ = false;
  std::thread thread_;
};

}  // namespace patallreduce::gpu
