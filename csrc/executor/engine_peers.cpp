// What an engine hears from other ranks, what it tells them, and how a communicator fails.
#include <sched.h>

#include <algorithm>

#include "errors.h"
#include "executor/engine.h"

namespace patallreduce::executor {

using transport::Events;

namespace {

constexpr double linger_s = 0.02;  // for an abort to leave before connections are cut

double interval_s(double timeout_s) { return std::clamp(timeout_s / 10, 0.01, 0.5); }

}  // namespace

void Engine::handle(int from, const Hello&) { greeted_[from] = 1; }

void Engine::handle(int from, const Announcement& announcement) {
  const std::uint64_t seq = announcement.seq;
  liveness_.heard(from, now_s(), seq + 1);
  if (seq > called_ + 2 * seq_ahead) return;
  auto found = pending_.find(seq);
  if (found == pending_.end()) {
    if (seq < called_) return;  // finished here: its tags matched the announcer's
    found = pending_.try_emplace(seq).first;
    Pending& pending = found->second;
    pending.call = announcement.call;
    pending.announced_by = from;
    if (dynamic(pending.call)) {
      if (rank_ == 0) line_up(seq, from);
      begin_dynamic(seq);
      return;
    }
    try {
      prepare(seq, pending);
    } catch (const ScheduleError&) {
      return;  // unknown here: this rank's own call will tell
    }
    admit();
    return;
  }
  const Pending& pending = found->second;
  if (!(pending.call == announcement.call))
    mismatch(seq, from, announcement.call, pending.ticket ? rank_ : pending.announced_by,
             pending.call);
  else if (rank_ == 0 && dynamic(pending.call))
    line_up(seq, from);
}

void Engine::handle(int from, const Pulse& pulse) {
  liveness_.heard(from, now_s(), pulse.called);
  if (pulse.answer) tell(from, Pulse{called_or_waiting(), false});
}

// Passed on: this rank may end, and be missed by a third, before the third has heard why.
void Engine::handle(int, const Abort& abort) {
  const auto kind = std::min<int>(abort.kind, static_cast<int>(Kind::schedule));
  fail({static_cast<Kind>(kind), abort.rank, abort.what}, true);
}

void Engine::handle(int from, const Bye& bye) {
  left_[from] = bye.called;
  for (const auto& [seq, pending] : pending_) {
    if (seq >= bye.called && pending.ticket) {
      fail_left(from, bye.called, seq);
      return;
    }
  }
  if (unplanned_ && unplanned_->ticket->seq >= bye.called)
    fail_left(from, bye.called, unplanned_->ticket->seq);
}

void Engine::handle(int, const PlansEnd& end) {
  std::lock_guard lock(inbox_mutex_);
  if (!plans_end_) plans_end_ = end;
}

void Engine::handle(int, const Places& places) {
  const std::uint64_t seq = places.seq;
  const bool over = seq < called_ && pending_.count(seq) == 0;
  if (over || seq > called_ + 2 * seq_ahead) return;
  std::vector<Place>& heard = places_[seq];
  heard.insert(heard.end(), places.places.begin(), places.places.end());
  begin_dynamic(seq);
}

bool Engine::tell_plans_end() {
  if (!plans_end_untold_) return false;
  plans_end_untold_ = false;
  PlansEnd end;
  {
    std::lock_guard lock(inbox_mutex_);
    end = *plans_end_;
  }
  tell_all(end);
  return true;
}

void Engine::fail_left(int rank, std::uint64_t called, std::uint64_t seq) {
  fail({Kind::lost, rank,
        concat("rank ", rank, " closed its communicator after ", called, " collectives; rank ",
               rank_, " called number ", seq + 1)},
       true);
}

void Engine::lost(const Events::Lost& loss) {
  if (left_.count(loss.rank)) return;  // it said goodbye; what still needs it was failed then
  std::string during;
  if (!pending_.empty() && pending_.begin()->second.ticket)
    during = concat(" during collective ", pending_.begin()->first, " (",
                    describe(pending_.begin()->second.call), ")");
  fail({Kind::lost, loss.rank,
        concat("rank ", loss.rank, " was lost", during, ": ", loss.reason, " (seen by rank ", rank_,
               ")")},
       true);
}

void Engine::mismatch(std::uint64_t seq, int a, const Call& call_a, int b, const Call& call_b) {
  if (b < a) return mismatch(seq, b, call_b, a, call_a);  // both may see it: the same words
  fail({Kind::mismatch, a,
        concat("collective ", seq, " differs between ranks: rank ", a, " called ", describe(call_a),
               "; rank ", b, " called ", describe(call_b))},
       true);
}
void Engine::check_deadlines(double now) {
  double interval = 0.5;
  bool old = false;
  // A process that was itself held up (stopped, starved) has heard nobody: it asks again and gives
  // the others time to answer before it blames them. Rests between two looks are no hold-up.
  const double looks_s = std::max(interval_s(shortest_timeout_s_), 5 * longest_rest_s);
  const bool held_up = checked_s_ != 0 && now > checked_s_ + looks_s;
  if (held_up) liveness_.nothing_pending();
  if (held_up) judge_after_s_ = now + 3 * interval_s(shortest_timeout_s_);
  checked_s_ = now;
  shortest_timeout_s_ = 5.0;
  for (const auto& [seq, pending] : pending_) {
    if (!pending.ticket || pending.ticket->done) continue;
    shortest_timeout_s_ = std::min(shortest_timeout_s_, pending.timeout_s);
    interval = interval_s(shortest_timeout_s_);
    old = old || now > pending.ticket->arrival_s + interval;
    if (now < std::max(pending.ticket->arrival_s + pending.timeout_s, judge_after_s_)) continue;
    const int waits_for = pending.operation ? pending.operation->waiting_for() : -1;
    time_out(seq, pending.call, pending.timeout_s, waits_for, now);
    return;
  }
  if (unplanned_) {
    const Ticket& ticket = *unplanned_->ticket;
    shortest_timeout_s_ = std::min(shortest_timeout_s_, unplanned_->timeout_s);
    interval = interval_s(shortest_timeout_s_);
    old = old || now > ticket.arrival_s + interval;
    if (now >= std::max(ticket.arrival_s + unplanned_->timeout_s, judge_after_s_)) {
      time_out(ticket.seq, unplanned_->call, unplanned_->timeout_s, -1, now);
      return;
    }
  }
  if (old) {
    if (liveness_.due(now, interval)) tell_all(Pulse{called_or_waiting(), true});
  } else {
    liveness_.nothing_pending();
  }
  next_check_s_ = now + std::min(interval / 4, longest_rest_s);
}

void Engine::time_out(std::uint64_t seq, const Call& call, double timeout_s, int waits_for,
                      double now) {
  auto [culprits, text] = liveness_.culprit(seq, now, interval_s(shortest_timeout_s_));
  const int named = culprits.empty() ? waits_for : culprits.front();
  fail({Kind::timeout, named,
        concat("collective ", seq, " (", describe(call), ") did not finish within ", timeout_s,
               " s on rank ", rank_, ": ", text,
               waits_for >= 0 ? concat("; it waited for rank ", waits_for) : "",
               unplanned_ && unplanned_->ticket->seq == seq ? "; it waited for its plan" : "")},
       true);
}

void Engine::fail(Failure failure, bool tell) {
  if (this->failure()) return;
  if (tell) {
    // Not the dead one: UCX would look for its memory, and complain.
    if (failure.kind == Kind::lost) left_.emplace(failure.rank, called_);
    tell_all(Abort{static_cast<std::uint8_t>(failure.kind), failure.rank, failure.what});
    progress_for(linger_s);
  }
  transport_->abandon();
  const auto shared = std::make_shared<const Failure>(std::move(failure));
  std::deque<Submission> unstarted;
  {
    std::lock_guard lock(inbox_mutex_);
    failure_ = shared;
    std::swap(unstarted, inbox_);
  }
  if (unplanned_) {
    unstarted.push_front(std::move(*unplanned_));
    unplanned_ = nullptr;
  }
  for (auto& [seq, pending] : pending_)
    if (pending.ticket && !pending.ticket->done) finish(pending, shared);
  refuse(unstarted, shared);
  // Operations are destroyed by the caller's next turn: one of them may be on the stack.
  failed_pending_ = std::move(pending_);
  pending_.clear();
  stopping_ = true;
}

void Engine::refuse(std::deque<Submission>& unstarted, std::shared_ptr<const Failure> failure) {
  for (Submission& submission : unstarted) {
    Pending pending;
    pending.ticket = submission.ticket;
    pending.queued = submission.queued;
    finish(pending, failure);
  }
}

void Engine::progress_for(double seconds) {
  Events ignored;
  const double until_s = now_s() + seconds;
  while (now_s() < until_s) {
    transport_->progress(ignored);
    sched_yield();
  }
}

void Engine::tell(int peer, const Message& message) { transport_->control(peer, encode(message)); }

void Engine::tell_all(const Message& message) {
  const std::string bytes = encode(message);
  for (int peer = 0; peer < ranks_; ++peer)
    if (peer != rank_ && !left_.count(peer)) transport_->control(peer, bytes);
}
}  // namespace patallreduce::executor
