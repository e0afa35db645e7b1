// Drives all collectives of one communicator on one rank.
//
// One thread owns the transport; a caller that waits takes its place and drives from its own
// thread, which saves two context switches. Whoever drives holds `driving_`; nobody touches Python.
// It spins briefly when idle, then sleeps on the transport's file descriptors: there are fewer
// cores than threads.
//
// Every rank numbers its collectives. On arrival it announces number and call to the ranks it will
// send to, which may then receive before their own arrival, and to the next rank, which compares.
// Ranks take their places in a dynamic schedule as they arrive: rank 0 hears of every arrival by
// its announcement, and tells places.
// A planned call that has no plan yet holds up the calls behind it; another rank's announcement is
// as good as the plan, since every rank takes its schedules from the same one. The call is hashed
// into the tags as well, so data of another call is never received.
#pragma once

#include <atomic>
#include <condition_variable>
#include <deque>
#include <functional>
#include <list>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "clock.h"
#include "executor/arithmetic.h"
#include "executor/call.h"
#include "executor/control.h"
#include "executor/given.h"
#include "executor/lineup.h"
#include "executor/liveness.h"
#include "executor/operation.h"
#include "executor/scratch.h"
#include "executor/stream_queue.h"
#include "executor/ticket.h"
#include "schedule/plan.h"
#include "transport/transport.h"

namespace patallreduce::executor {

using schedule::Plan;
using schedule::Schedule;
using schedule::ScheduleKey;
using transport::Events;
using transport::Transport;

struct EngineOptions {
  double spin_s = 20e-6;                     // idle spinning before sleeping
  bool shares_cores = true;                  // more ranks than cores on this host: yield to them
  std::size_t scratch_bytes = 512ull << 20;  // admitted operations together, but for one
  StepsSource steps_source;
  ScheduleKey barrier;  // what runs here of calls on streams
};

class Engine {
 public:
  Engine(std::shared_ptr<Transport> transport, EngineOptions options);
  ~Engine();
  Engine(const Engine&) = delete;

  // Exchanges hellos, so that every connection stands. Throws TransportTimeout.
  void start(double timeout_s);

  // Never waits. `data` must stay valid until the ticket is done. A failed communicator gives a
  // ticket that is done and failed.
  std::shared_ptr<Ticket> submit(void* data, Call call, double timeout_s);
  // As submit, before the contribution is in `data`: numbers the call, which holds up those behind
  // it until come(), with their deadlines: the caller has one for it. For `on_done` see the ticket;
  // one that is refused never calls it.
  std::shared_ptr<Ticket> submit_ahead(void* data, Call call, std::function<void()> on_done);
  // The contribution is there: the call arrives, and its deadline counts from now. Nothing happens
  // if it has failed.
  void come(Ticket& ticket, double timeout_s);
  // Throws what submit would of this call; makes its schedule, which submit then has.
  void check(const Call& call);
  // From here on calls carried by `device` are summed by this. Once. Before it the announcements of
  // other ranks wait for this rank's call.
  void set_device(std::unique_ptr<Arithmetic> device);
  // What a call asks for that is to run `schedule`: see executor/given.h.
  ScheduleKey given(const Schedule& schedule) const { return given_key(schedule, ranks_, rank_); }
  // Drives until the ticket is done or `slice_s` has passed; true if done.
  bool wait(const Ticket& ticket, double slice_s);
  // The next asynchronously submitted ticket that is done; null after `timeout_s` or at the end.
  std::shared_ptr<Ticket> next_done(double timeout_s);
  // As submit, and next_done() will return the ticket.
  std::shared_ptr<Ticket> submit_queued(void* data, Call call, double timeout_s);

  // As submit, of a collective whose data `queue` moves: done once every rank has called it alike.
  std::shared_ptr<Ticket> submit_on(std::shared_ptr<StreamQueue> queue, void* data, Call call,
                                    double timeout_s, std::function<void()> on_done);

  // Gives planned calls of this iteration their schedules. From any thread; before this they wait.
  void plan(std::shared_ptr<const Plan> plan);
  // No further plan comes: all ranks go on with the calls' own schedules. Called on the leader.
  void end_plans(const std::string& reason);
  // What would run if the call came now; empty: its plan is not here yet.
  std::string algorithm_now(const Call& call) const;
  // Why there are no plans any more, if so.
  std::optional<std::string> plans_ended() const;

  // Ends everything pending with a TransportError on all ranks.
  void abort(const std::string& why);
  void abort(Failure failure);
  // Drains for at most `timeout_s`, tells the others, releases everything. Idempotent.
  void close(double timeout_s);

  std::shared_ptr<const Failure> failure() const;
  int rank() const { return rank_; }
  int ranks() const { return ranks_; }
  Transport& transport() { return *transport_; }
  std::size_t scratch_peak_bytes();

 private:
  struct Pending {  // one collective: called here, announced by others, or both
    Call call;
    int announced_by = -1;
    std::unique_ptr<Operation> operation;  // null: unknown schedule, or no place in it yet
    bool admitted = false;
    void* data = nullptr;            // once called
    std::shared_ptr<Ticket> ticket;  // null: not called here yet
    bool queued = false;
    double timeout_s = 0;
  };
  struct Submission {
    void* data;
    Call call;
    double timeout_s;
    std::shared_ptr<Ticket> ticket;
    bool queued;
    std::shared_ptr<StreamQueue> stream_queue;  // null: the data come this way
  };

  struct StreamPlans {
    std::map<std::int64_t, std::shared_ptr<const Plan>> kept;  // by iteration
    std::int64_t newest = -1;
    std::int64_t resolved = -1;  // iteration of the last planned call that arrived here
    std::weak_ptr<StreamQueue> stream_queue;  // of that call
  };

  std::shared_ptr<Ticket> submit(Submission submission, bool wake,
                                 std::function<void()> on_done = {});
  void check(const Call& call, StreamQueue* queue);
  Scratch* scratch_for(const Call& call);  // null: nothing here sums in such memory
  void thread_main();
  bool turn();  // one round of everything; false: nothing happened
  void rest(double at_most_s, std::unique_lock<std::mutex>& driving);
  template <typename Done>
  void drive(std::unique_lock<std::mutex>& driving, double until_s, Done done);
  void take_over(std::unique_lock<std::mutex>& driving);
  void unpark();

  bool take_submissions();
  std::optional<const ScheduleKey*> planned_key(const Call& call) const;
  bool resolve(Submission& submission);
  std::uint64_t called_or_waiting() const { return called_ + (unplanned_ ? 1 : 0); }
  bool tell_plans_end();
  void arrive(Submission& submission);
  bool dynamic(const Call& call) const;
  void prepare(std::uint64_t seq, Pending& pending);
  void admit();
  void handle(const Events& events);
  void handle(int from, const Message& message);
  void handle(int from, const Hello& hello);
  void handle(int from, const Announcement& announcement);
  void handle(int from, const Pulse& pulse);
  void handle(int from, const Abort& abort);
  void handle(int from, const Bye& bye);
  void handle(int from, const PlansEnd& end);
  void handle(int from, const Places& places);
  void line_up(std::uint64_t seq, int rank);
  void begin_dynamic(std::uint64_t seq);
  void lost(const Events::Lost& lost);
  void settle(std::uint64_t seq);  // result ready? drained?
  void check_deadlines(double now_s);
  void time_out(std::uint64_t seq, const Call& call, double timeout_s, int waits_for, double now_s);
  bool anything_pending() const { return !pending_.empty() || unplanned_; }
  void fail(Failure failure, bool tell);
  void finish(Pending& pending, std::shared_ptr<const Failure> failure);
  void refuse(std::deque<Submission>& unstarted, std::shared_ptr<const Failure> failure);
  void tell(int peer, const Message& message);
  void tell_all(const Message& message);
  void progress_for(double seconds);
  std::shared_ptr<const Program> program(const ScheduleKey& key, int place);
  void mismatch(std::uint64_t seq, int a, const Call& call_a, int b, const Call& call_b);
  void fail_left(int rank, std::uint64_t called, std::uint64_t seq);

  const int rank_;
  const int ranks_;
  EngineOptions options_;

  std::mutex driving_;  // guards everything down to the next comment
  std::shared_ptr<Transport> transport_;
  Scratch scratch_;
  std::unique_ptr<Arithmetic> device_;  // null: none
  std::unique_ptr<Scratch> device_scratch_;
  std::atomic<bool> has_device_{false};  // for callers, who do not hold the lock
  Events events_;
  Liveness liveness_;
  Lineup lineup_;                                       // on rank 0: of dynamic collectives
  std::map<std::uint64_t, std::vector<Place>> places_;  // heard of, by dynamic collective
  std::map<std::uint64_t, Pending> pending_;
  std::map<std::uint64_t, Pending> failed_pending_;  // after a failure: kept until closed
  std::unique_ptr<Submission> unplanned_;            // the next to arrive waits for its plan
  std::size_t admitted_bytes_ = 0;
  std::vector<char> greeted_;
  std::map<int, std::uint64_t> left_;  // ranks that closed, and how many collectives they called
  std::uint64_t called_ = 0;
  double next_check_s_ = 0;
  double checked_s_ = 0;  // when deadlines were last looked at; 0: nothing was pending
  double judge_after_s_ = 0;
  double shortest_timeout_s_ = 5;  // of what is pending
  double idle_since_s_ = 0;
  bool all_posted_ = false;  // in this idle stretch
  std::atomic<bool> closed_{false};

  struct KeptProgram {
    ScheduleKey key;
    int place;
    std::shared_ptr<const Program> program;
  };
  std::mutex programs_mutex_;        // guards this
  std::list<KeptProgram> programs_;  // newest first

  mutable std::mutex inbox_mutex_;  // guards these
  std::deque<Submission> inbox_;
  std::uint64_t next_seq_ = 0;
  std::shared_ptr<const Failure> failure_;
  std::map<std::int64_t, StreamPlans> plans_;  // by stream
  std::optional<PlansEnd> plans_end_;
  std::atomic<bool> plans_end_untold_{false};

  std::mutex done_mutex_;  // guards these
  std::condition_variable done_changed_;
  std::deque<std::shared_ptr<Ticket>> done_;
  bool done_ended_ = false;

  std::atomic<int> drivers_{0};  // callers that drive: the engine's thread keeps out of their way
  std::mutex parking_mutex_;     // for the engine's thread to sleep meanwhile
  std::condition_variable parking_changed_;

  int wake_fd_;
  std::atomic<bool> stopping_{false};
  std::thread thread_;
};

// While something is pending the engine rests no longer than this: deadlines, pulses.
constexpr double longest_rest_s = 0.02;
constexpr std::uint64_t seq_ahead = 512;  // how far a rank may run ahead of another

}  // namespace patallreduce::executor
