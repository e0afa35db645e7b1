#include "executor/engine.h"

#include <unistd.h>

#include <utility>
#include <variant>

#include "clock.h"
#include "errors.h"
#include "overloaded.h"

namespace patallreduce::executor {

using schedule::PlannedBucket;

namespace {

constexpr int leader_rank = 0;  // whose monitor makes plans
constexpr double idle_before_posting_all_s = 1e-3;

}  // namespace

Engine::Engine(std::shared_ptr<Transport> transport, EngineOptions options)
    : rank_(transport->rank()),
      ranks_(transport->ranks()),
      transport_(std::move(transport)),
      process_(getpid()),
      has_thread_(options.has_thread),
      programs_(std::move(options.steps_source), ranks_),
      memory_(options.scratch_bytes),
      agreement_(*transport_),
      watch_(ranks_, rank_),
      ending_(ranks_, rank_),
      calls_(*transport_, memory_, programs_, plans_, agreement_, outbox_,
             std::move(options.barrier)),
      driver_(*this, *transport_, options.spin_s, options.shares_cores) {}

Engine::~Engine() { close(0); }

void Engine::start(double timeout_s) {
  auto driving = driver_.lock();
  agreement_.tell_all(Hello{protocol_version});
  driver_.drive(driving, now_s() + timeout_s,
                [&] { return ending_.begun() || agreement_.missing() < 0; });
  const int missing = agreement_.missing();
  if (missing >= 0) {
    fail({Kind::timeout, missing,
          concat("rank ", rank_, ": rank ", missing, " did not connect over ", transport_->name(),
                 " within ", timeout_s, " s")});
  }
  end(driving);
  if (const auto failed = failure()) raise(*failed);
  if (has_thread_) driver_.start_thread();
}

std::shared_ptr<Ticket> Engine::begin(void* data, Call call, double timeout_s) {
  const auto ticket = std::make_shared<Ticket>();
  return submit({data, std::move(call), timeout_s, ticket, nullptr}, false);
}

std::shared_ptr<Ticket> Engine::submit(void* data, Call call, double timeout_s) {
  const auto ticket = std::make_shared<Ticket>();
  return submit({data, std::move(call), timeout_s, ticket, nullptr}, true);
}

std::shared_ptr<Ticket> Engine::submit_ahead(void* data, Call call, std::function<void()> on_done) {
  const auto ticket = std::make_shared<Ticket>();
  ticket->ready = false;
  ticket->on_done = std::move(on_done);
  return submit({data, std::move(call), 0, ticket, nullptr}, false);
}

std::shared_ptr<Ticket> Engine::submit_on(std::shared_ptr<StreamQueue> queue, void* data, Call call,
                                          double timeout_s, std::function<void()> on_done) {
  const auto ticket = std::make_shared<Ticket>();
  ticket->on_done = std::move(on_done);
  return submit({data, std::move(call), timeout_s, ticket, std::move(queue)}, true);
}

// `wake`: the caller does not go on to drive.
std::shared_ptr<Ticket> Engine::submit(Submission submission, bool wake) {
  check_process();
  check(submission.call, submission.stream_queue.get());
  const std::shared_ptr<Ticket> ticket = submission.ticket;
  ticket->arrival_s = now_s();
  if (inbox_.put(std::move(submission)) && wake) driver_.wake();
  return ticket;
}

void Engine::mark_ready(Ticket& ticket, double timeout_s) {
  if (inbox_.mark_ready(ticket, timeout_s)) driver_.wake();
}

// A ScheduleError belongs to the caller.
void Engine::check(const Call& call, StreamQueue* queue) {
  PATR_CHECK(call.carrier != Carrier::device || memory_.has_device(), std::invalid_argument,
             "rank ", rank_,
             ": expected an engine that was given a GPU to sum on, got a call carried by ",
             name(call.carrier), " for one that was not");
  PATR_CHECK((call.carrier == Carrier::streams) == (queue != nullptr), std::invalid_argument,
             "rank ", rank_, ": a call carried by ", name(call.carrier),
             queue ? " was given" : " needs", " streams");
  if (!queue) {
    programs_.get(call.key, rank_);
    return;
  }
  PATR_CHECK(!programs_.dynamic(call.key), ScheduleError, "expected on rank ", rank_,
             " an algorithm whose order is known before ranks arrive, since streams are given "
             "their work beforehand; got ",
             call.key.algorithm);
  queue->prepare(call.key);
}

void Engine::set_device(std::unique_ptr<Arithmetic> device) {
  const auto driving = driver_.lock();
  PATR_CHECK(!closed_, TransportError, "rank ", rank_, ": the communicator is closed");
  PATR_CHECK(!memory_.device(), std::invalid_argument, "rank ", rank_,
             ": expected one GPU per communicator, got a second one");
  memory_.set_device(std::move(device));
}

void Engine::check_process() const {
  const int here = getpid();
  PATR_CHECK(here == process_, TransportError, "this communicator was made by process ", process_,
             " and cannot be used in its forked child ", here,
             "; make one there, or start workers with 'spawn'");
}

bool Engine::wait(const Ticket& ticket, double slice_s) {
  check_process();
  const auto done = [&] { return ticket.done.load(std::memory_order_acquire); };
  if (!done()) driver_.help(slice_s, done);
  return done();
}

bool Engine::plan(std::shared_ptr<const Plan> plan) {
  const auto queue = plans_.queue_of(plan->loop);
  try {  // off the critical path
    for (const PlannedBucket& bucket : plan->buckets) {
      if (!queue)
        programs_.get(bucket.key, rank_);
      else if (!programs_.dynamic(bucket.key))
        queue->prepare(bucket.key);
    }
  } catch (const ScheduleError&) {  // the call that needs it will tell
  }
  if (!plans_.keep(std::move(plan)) && rank_ == leader_rank) return false;
  driver_.wake();
  return true;
}

void Engine::end_plans(const std::string& reason) {
  if (plans_.end(reason)) driver_.wake();
}

bool Engine::turn() {
  try {
    const Entered entered(memory_.device());
    if (thrown_) fail(failure_of(thrown_, rank_));
    thrown_ = nullptr;
    return ending_.begun() ? end_turn() : calls_turn();
  } catch (const std::bad_alloc&) {  // not even for failing: the next turn tries again
    thrown_ = std::current_exception();
    return true;
  }
}

bool Engine::calls_turn() {
  bool busy = false;
  try {
    if (const auto end = plans_.untold_end()) {
      agreement_.tell_all(*end);
      busy = true;
    }
    if (calls_.take(inbox_)) {
      watch_.look_soon();
      busy = true;
    }
    transport_->progress(events_);
    if (!events_.empty()) {
      busy = true;
      handle(events_);
      events_.clear();
    }
    look();
  } catch (const std::exception&) {
    fail(failure_of(std::current_exception(), rank_));
    hear_endings();
  }
  if (busy) all_posted_ = false;
  return busy;
}

// A short idle is part of a busy exchange; a long one is a wait for a late rank: let everything
// come. It also ends any wait that the window of receives could cause.
double Engine::rest_s(double idle_s) {
  if (ending_.begun()) return longest_rest_s;
  if (all_posted_ || !calls_.in_flight()) return pending() ? longest_rest_s : -1;
  if (idle_s < idle_before_posting_all_s) return idle_before_posting_all_s;
  all_posted_ = true;
  try {
    const Entered entered(memory_.device());
    calls_.post_receives();
  } catch (const std::exception&) {
    thrown_ = std::current_exception();
  }
  return 0;
}

void Engine::handle(const Events& events) {
  const double now = now_s();
  for (const auto& [from, bytes] : events.control) {
    watch_.heard(from, now);
    if (const auto message = decode(bytes, ranks_)) handle(from, *message, now);
  }
  for (const Token token : events.finished) calls_.note_finished(token);
  for (const Events::Lost& loss : events.lost) {
    agreement_.note_lost(loss, calls_.during());
    watch_.note_ended(loss.rank);
  }
}

void Engine::handle(int from, const Message& message, double now_s) {
  const Overloaded receive{
      [&](const Hello& hello) { agreement_.note_hello(from, hello); },
      [&](const Announcement& announcement) {
        watch_.heard(from, now_s, announcement.seq + 1);
        calls_.note_announcement(from, announcement);
      },
      [&](const Pulse& pulse) {
        watch_.heard(from, now_s, pulse.called);
        if (pulse.answer) agreement_.tell(from, Pulse{calls_.called(), false});
      },
      // Passed on: this rank may end, and be missed by a third, before the third has heard why.
      [&](const Abort& abort) {
        agreement_.note_needs_nothing(from);
        ending_.hear(from, abort);
        raise({Kind{abort.kind}, abort.rank, abort.what, abort.completed});
      },
      [&](const Bye& bye) {
        agreement_.note_bye(from, bye);
        calls_.check_present();
      },
      // Nobody else has these to tell.
      [&](const PlansEnd& end) {
        if (from == leader_rank) plans_.note_end(end);
      },
      [&](const BindPlaces& told) {
        if (from == Places::keeper) calls_.bind_places(told);
      },
      [&](const ByeHeard&) { agreement_.note_needs_nothing(from); },
  };
  std::visit(receive, message);
}

void Engine::look() {
  if (!pending()) {
    watch_.nothing_pending();
    return;
  }
  const double now = now_s();
  if (!watch_.is_due(now)) return;
  watch_.begin(now);
  calls_.each_waiting([&](const Waiting& waiting) {
    if (waiting.for_plan && rank_ == leader_rank && watch_.waits_too_long_for_plan(waiting))
      end_plans(concat("rank ", rank_, ": its progress monitor made no plan for ",
                       now - waiting.arrival_s, " s"));
    watch_.see(waiting);
  });
  agreement_.tell_present(watch_.end(), Pulse{calls_.called(), true});
}

Snapshot Engine::snapshot() {
  const auto driving = driver_.lock();
  return at_failure_ ? *at_failure_ : take_snapshot();
}

Snapshot Engine::take_snapshot() const {
  Snapshot snapshot{false, now_s(), calls_.called(), watch_.peers(), {}};
  calls_.each_waiting([&](const Waiting& waiting) {
    const int waits_for = waiting.operation ? waiting.operation->waiting_for() : -1;
    snapshot.waiting.push_back(
        {waiting.seq, describe(waiting.call), waiting.arrival_s, waits_for, waiting.for_plan});
  });
  return snapshot;
}

std::size_t Engine::scratch_peak_bytes() {
  const auto driving = driver_.lock();
  return memory_.peak_bytes();
}

}  // namespace patallreduce::executor
