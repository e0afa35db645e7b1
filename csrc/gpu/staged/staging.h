// Collectives of an engine on a GPU's memory, queued like work of a stream: the host goes on.
//
//   producing stream   ... backward |event
//   out_                            \-> copy to pinned memory |event
//   engine                                                    \-> the schedule, on the host ->|
//   back_                                                     copy to the GPU |event <--------/
//   consuming stream                                          optimizer ... <-/
//
// Staged, as drawn, the engine works on pinned memory, and every transport and all of the
// arrival-aware machinery serve a GPU. Each way a copy crosses the GPU's bus once, which is cheap
// where the network is much slower than the bus. Direct, there are no copies, and the engine works
// on the GPU's memory itself (device_arithmetic.h), over a transport that moves such memory.
//
// A thread looks at events with pauses of 20 to 200 us and gives a contribution to the engine when
// it has come: so its arrival is the GPU's, and not when the work was queued. Calls are numbered by
// submit(), among all others of the engine, on all ranks alike; results come back in any order.
//
// Fails as one: an error of CUDA, of the engine, or a contribution that has not come by its
// deadline ends the engine, on all ranks, and everything that has no result yet.
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <exception>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "executor/engine.h"
#include "gpu/device/device.h"
#include "gpu/device/pinned.h"

namespace patallreduce::gpu {

using executor::Call;
using executor::Engine;
using executor::Ticket;

// One collective; belongs to its staging.
struct StagedTicket {
  enum class Phase : std::uint8_t {
    coming,     // its contribution
    running,    // in the engine
    returning,  // the copy of its result is queued
    done,       // seen on the host
    failed,
  };

  // Null until the engine has its contribution.
  std::shared_ptr<Ticket> engine_ticket() const { return is_coming() ? nullptr : in_engine; }
  double arrival_s() const { return is_coming() ? 0 : arrived_s; }
  double finish_s() const { return phase.load() >= Phase::done ? finished_s : 0; }
  // Throws what it failed with.
  void check() const {
    if (phase.load() == Phase::failed) std::rethrow_exception(failure);
  }

  Call call;
  void* home = nullptr;
  std::uint64_t number = 0;
  double timeout_s = 0;
  double deadline_s = 0;
  PinnedBlock pinned;
  void* contribution = nullptr;  // event behind it
  void* result = nullptr;        // event behind its copy

  std::atomic<Phase> phase{Phase::coming};
  // Written before the phase that they belong to.
  std::shared_ptr<Ticket> in_engine;
  double arrived_s = 0;
  double finished_s = 0;
  std::exception_ptr failure;

 private:
  bool is_coming() const { return phase.load() == Phase::coming; }
};

class Staging {
 public:
  // Direct: makes `device` the engine's, see Engine::set_device.
  Staging(std::shared_ptr<Engine> engine, std::shared_ptr<const StreamDevice> device, bool direct);
  ~Staging();
  Staging(const Staging&) = delete;

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

  // Wakes the thread. Shared with the engine, which may outlive this.
  class Bell {
   public:
    void ring();
    void wait(double at_most_s);  // < 0: for ever

   private:
    std::mutex mutex_;
    std::condition_variable changed_;
    bool rung_ = false;
  };
  struct Leftover {  // of a failed ticket: a copy may still be under way
    void* event;
    PinnedBlock pinned;
  };

  void serve();
  bool look();
  bool advance(StagedTicket& ticket);
  void check_deadline(const StagedTicket& ticket);
  void start(StagedTicket& ticket);
  void take_back(StagedTicket& ticket);
  void finish(StagedTicket& ticket);
  void fail(std::exception_ptr failure);
  void fail(StagedTicket& ticket);
  void settle_leftovers(double until_s);
  bool reaches(const StagedTicket& ticket, Phase phase, double slice_s);
  void* take_event();

  const std::shared_ptr<Engine> engine_;
  const std::shared_ptr<const StreamDevice> device_;
  const bool direct_;
  const std::shared_ptr<Bell> bell_ = std::make_shared<Bell>();

  std::mutex mutex_;  // guards everything below
  std::condition_variable changed_;
  void* out_ = nullptr;  // streams
  void* back_ = nullptr;
  std::unique_ptr<PinnedPool> pinned_;
  std::deque<std::shared_ptr<StagedTicket>> in_flight_;
  std::deque<std::shared_ptr<StagedTicket>> untold_;  // next_done() has not returned them
  std::vector<Leftover> leftovers_;
  std::uint64_t next_number_ = 0;
  std::vector<void*> free_events_;
  std::size_t event_count_ = 0;
  std::exception_ptr failure_;
  bool closing_ = false;
  bool closed_ = false;
  std::thread thread_;
};

}  // namespace patallreduce::gpu
