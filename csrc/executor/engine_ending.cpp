// How an engine ends: with an error, of which ending.h has the protocol, or closed.
#include <sched.h>

#include <algorithm>
#include <cmath>
#include <utility>
#include <variant>

#include "clock.h"
#include "errors.h"
#include "executor/engine.h"

namespace patallreduce::executor {

namespace {

constexpr double linger_s = 0.02;  // for a message to leave

}  // namespace

void Engine::abort(const std::string& why) {
  check_process();
  abort(Failure{Kind::transport, rank_, concat("rank ", rank_, " aborted: ", why)});
}

void Engine::abort(std::exception_ptr error) { abort(failure_of(error, rank_)); }

void Engine::abort(Failure failure) {
  auto driving = driver_.lock();
  const Entered entered(memory_.device());
  if (closed_) return;
  fail(std::move(failure));
  end(driving);
}

// Once it has begun to end: until it has.
void Engine::end(Driver::Lock& driving) {
  driver_.drive(driving, HUGE_VAL, [this] { return failure() || !ending_.begun(); });
}

// What went wrong here: no data moves from here on; the next turn tells the others, and asks them.
void Engine::fail(Failure failure) {
  if (this->failure() || ending_.begun()) return;
  failure.completed = calls_.completed();
  ending_.begin(std::move(failure), now_s());
}

void Engine::tell_failure() {
  at_failure_ = take_snapshot();
  at_failure_->failed = true;
  agreement_.tell(ending_.begun_by(), 0);  // but whom it names as lost
  for (int rank = 0; rank < ranks_; ++rank)
    if (agreement_.has_left(rank)) ending_.note_silent(rank);
  for (const int rank : watch_.silent()) ending_.note_silent(rank);
  told_ = true;
}

void Engine::hear_endings() {
  for (const auto& [from, bytes] : events_.control) {
    const auto message = decode(bytes, ranks_);
    if (!message) continue;
    if (const auto* told = std::get_if<Abort>(&*message)) ending_.hear(from, *told);
    if (std::holds_alternative<Bye>(*message)) ending_.note_silent(from);
  }
  for (const Events::Lost& loss : events_.lost) ending_.note_silent(loss.rank);
  events_.clear();
}

// A turn between the failure here and the error of all ranks.
bool Engine::end_turn() {
  if (failure()) return false;
  if (!told_) tell_failure();
  try {
    transport_->progress(events_);
  } catch (const std::exception&) {  // what it told is all that is known
  }
  const bool busy = !events_.empty();
  hear_endings();
  if (auto verdict = ending_.judge(now_s())) {
    agreement_.tell(verdict->failure, verdict->heard);
    ending_.note_told(std::move(*verdict), now_s());
  }
  const auto agreed = ending_.agreed(now_s());
  if (agreed) finish(*agreed);
  return busy || agreed;
}

void Engine::finish(const Failure& failure) {
  const auto shared = std::make_shared<const Failure>(failure);
  // What was told has to leave before connections are cut.
  const double until_s = now_s() + linger_s;
  for (Events ignored; now_s() < until_s; ignored.clear()) {
    transport_->progress(ignored);
    sched_yield();
  }
  transport_->abandon();
  const auto unstarted = inbox_.end(shared);
  calls_.end(shared);
  refuse(unstarted, shared);
  driver_.end();
}

void Engine::refuse(const std::deque<Submission>& unstarted,
                    std::shared_ptr<const Failure> failure) {
  for (const Submission& one : unstarted) outbox_.finish(one.ticket, failure);
}

double Engine::drain(double timeout_s) {
  auto driving = driver_.lock();
  if (closed_) return 0;
  driver_.drive(driving, now_s() + timeout_s, [&] { return failure() || !sending(); });
  return failure() ? 0 : std::max(calls_.owes_until_s() - now_s(), 0.0);
}

// In order, or with an error.
void Engine::leave(Driver::Lock& driving, double timeout_s) {
  driver_.drive(driving, now_s() + timeout_s, [&] { return failure() || !sending(); });
  // What this rank has, others may still wait for: they have until the deadline of that call.
  const double owes_until_s = timeout_s > 0 ? calls_.owes_until_s() : -HUGE_VAL;
  driver_.drive(driving, owes_until_s,
                [&] { return failure() || std::isinf(calls_.owes_until_s()); });
  if (!failure() && sending()) {
    const Failure pending{
        Kind::transport, rank_,
        concat("rank ", rank_, " closed its communicator with a collective pending")};
    fail(calls_.owes().value_or(pending));
  }
  end(driving);
  if (failure()) return;
  // Before the goodbye, after which the others tell this rank nothing any more: what lacks memory
  // here has to be an error of all.
  const auto closed = std::make_shared<const Failure>(
      Failure{Kind::transport, rank_, "the communicator is closed"});
  refuse(inbox_.end(closed), closed);
  agreement_.tell_all(Bye{calls_.called()});
  const bool met = agreement_.missing() < 0;
  driver_.drive(driving, std::max(now_s() + timeout_s, owes_until_s),
                [&] { return !met || agreement_.may_leave(); });
}

void Engine::close(double timeout_s) {
  {
    auto driving = driver_.lock();
    if (closed_) return;
    closed_ = true;
    try {
      leave(driving, timeout_s);
    } catch (...) {  // no memory: the caller may try again
      closed_ = false;
      throw;
    }
    driver_.end();
  }
  driver_.join();
  outbox_.end();
  const auto driving = driver_.lock();
  {
    const Entered entered(memory_.device());
    transport_->close(std::min(timeout_s, 2.0));
    calls_.clear();
  }
  memory_.release_device();
}

}  // namespace patallreduce::executor
