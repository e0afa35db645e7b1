// Drives all collectives of one communicator on one rank.
//
//   for        class      what                                       calls
//
//   callers    Engine     the public face, and a turn of everything  all below
//   any        Driver     who drives, spins, sleeps, parks           Engine::turn, rest_s
//   thread,    Inbox      calls, numbered                            nobody
//   a lock     Plans      what planned calls are to run              nobody
//   each       Programs   compiled steps                             nobody
//              Outbox     what is done                               nobody
//   who        Calls      a collective's way                         Operation, and all but Watch
//   drives     Agreement  what ranks tell each other                 the transport
//              Watch      deadlines, pulses, whom to blame           nobody
//              Ending     one error for all ranks                    nobody
//              Memory     scratch, of the processor and of a GPU     nobody
//
// Whoever drives holds the driver's lock, which guards the last five; the others' locks are taken
// within it, one at a time. Nobody here touches Python. What is thrown while turning ends the
// communicator, on all ranks.
#pragma once

#include <deque>
#include <exception>
#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "executor/calls.h"
#include "executor/driver.h"
#include "executor/ending.h"
#include "executor/given.h"
#include "executor/snapshot.h"

namespace patallreduce::executor {

struct EngineOptions {
  double spin_s = 20e-6;                     // idle spinning before sleeping
  bool shares_cores = true;                  // more ranks than cores on this host: yield to them
  std::size_t scratch_bytes = 512ull << 20;  // admitted operations together, but for one
  StepsSource steps_source;
  ScheduleKey barrier;     // what runs here of calls on streams
  bool has_thread = true;  // else only callers that wait drive
};

class Engine final : private Driven {
 public:
  Engine(std::shared_ptr<Transport> transport, EngineOptions options);
  // As of its transport.
  std::vector<std::set<transport::End>> ends() const { return transport_->ends(); }
  ~Engine() override;
  Engine(const Engine&) = delete;

  // Exchanges hellos, so that every connection stands. Throws TransportTimeout.
  void start(double timeout_s);

  // Never waits. `data` must stay valid until the ticket is done. A failed communicator gives a
  // ticket that is done and failed.
  std::shared_ptr<Ticket> submit(void* data, Call call, double timeout_s);
  // As submit, for a caller that goes on to wait(): nobody else is woken.
  std::shared_ptr<Ticket> begin(void* data, Call call, double timeout_s);
  // As submit, before the contribution is in `data`: numbers the call, which holds up those behind
  // it until mark_ready(), with their deadlines: the caller has one for it. For `on_done` see the
  // ticket; one that is refused never calls it.
  std::shared_ptr<Ticket> submit_ahead(void* data, Call call, std::function<void()> on_done);
  // The contribution is there: the call arrives, and its deadline counts from now. Nothing happens
  // if it has failed.
  void mark_ready(Ticket& ticket, double timeout_s);
  // As submit, of a collective whose data `queue` moves: done once every rank has called it alike.
  std::shared_ptr<Ticket> submit_on(std::shared_ptr<StreamQueue> queue, void* data, Call call,
                                    double timeout_s, std::function<void()> on_done);
  // Throws what submit would of this call; makes its schedule, which submit then has.
  void check(const Call& call) { check(call, nullptr); }
  // What a call asks for that is to run `schedule`: see executor/given.h.
  ScheduleKey given(const Schedule& schedule) const { return given_key(schedule, ranks_, rank_); }
  // From here on calls carried by `device` are summed by this. Once. Before it the announcements of
  // other ranks wait for this rank's call.
  void set_device(std::unique_ptr<Arithmetic> device);

  // Drives until the ticket is done or `slice_s` has passed; true if done.
  bool wait(const Ticket& ticket, double slice_s);
  // next_done() is to return the ticket once it is done, which it may be. Once for each.
  void expect(const std::shared_ptr<Ticket>& ticket) { outbox_.expect(ticket); }
  // The next one that is expected and done; null after `timeout_s` or at the end.
  std::shared_ptr<Ticket> next_done(double timeout_s) { return outbox_.next(timeout_s); }

  // Gives planned calls of this iteration their schedules. From any thread; before this they wait.
  // False, on the leader: plans have ended, so nobody may follow it.
  bool plan(std::shared_ptr<const Plan> plan);
  // No further plan comes: all ranks go on with the calls' own schedules. Called on the leader.
  void end_plans(const std::string& reason);
  // What would run if the call came now; empty: its plan is not here yet.
  std::string algorithm_now(const Call& call) const { return plans_.algorithm_now(call); }
  // Why there are no plans any more, if so.
  std::optional<std::string> plans_ended() const { return plans_.ended(); }

  // Ends everything pending with one error on all ranks: a TransportError that says `why`, or what
  // `error` says.
  void abort(const std::string& why);
  void abort(std::exception_ptr error);
  // Drives until all that was called here is over, for at most `timeout_s`. Returns for how long
  // other ranks may then still wait for what this rank has sent: 0 if for nothing.
  double drain(double timeout_s);
  // Drains, beyond `timeout_s` what others still wait for, until their deadline; tells them and
  // stays until they have heard it, for at most `timeout_s`; releases everything. Idempotent.
  void close(double timeout_s);

  // Throws TransportError in a forked child: the connections are its parent's.
  void check_process() const;
  std::shared_ptr<const Failure> failure() const { return inbox_.failure(); }
  // Now; of a communicator that failed: when this rank noticed.
  Snapshot snapshot();
  int rank() const { return rank_; }
  int ranks() const { return ranks_; }
  std::size_t scratch_peak_bytes();

 private:
  bool turn() override;
  double rest_s(double idle_s) override;
  bool pending() const override { return calls_.pending(); }

  void check(const Call& call, StreamQueue* queue);
  std::shared_ptr<Ticket> submit(Submission submission, bool wake);
  void refuse(const std::deque<Submission>& unstarted, std::shared_ptr<const Failure> failure);
  void handle(const Events& events);
  void handle(int from, const Message& message, double now_s);
  void look();
  Snapshot take_snapshot() const;
  bool sending() const { return !inbox_.empty() || calls_.sending(); }
  void abort(Failure failure);
  void fail(Failure failure);
  void tell_failure();
  void hear_endings();
  bool calls_turn();
  bool end_turn();
  void end(Driver::Lock& driving);
  void leave(Driver::Lock& driving, double timeout_s);
  void finish(const Failure& failure);

  const int rank_;
  const int ranks_;
  const std::shared_ptr<Transport> transport_;
  const int process_;
  const bool has_thread_;

  Inbox inbox_;  // for all threads
  Outbox outbox_;
  Plans plans_;
  Programs programs_;

  Memory memory_;  // the driver's lock guards these
  Agreement agreement_;
  Watch watch_;
  Ending ending_;
  Calls calls_;
  Events events_;
  std::optional<Snapshot> at_failure_;
  bool all_posted_ = false;    // in this idle stretch
  std::exception_ptr thrown_;  // that the next turn fails for
  bool told_ = false;          // the others, of a failure here
  bool closed_ = false;

  Driver driver_;  // last: its thread uses what is above
};

}  // namespace patallreduce::executor
