#include "executor/engine.h"

#include <poll.h>
#include <sched.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>

#include "errors.h"

namespace patallreduce {

namespace {

constexpr double idle_before_posting_all_s = 1e-3;
constexpr double parked_s = 1e-3;  // how soon the engine's thread returns after a caller drove
constexpr int takeover_yields = 100;
constexpr double longest_rest_s = 0.02;   // while something is pending: deadlines, pulses
constexpr double linger_s = 0.02;         // for an abort to leave before connections are cut
constexpr std::uint64_t seq_ahead = 512;  // how far a rank may run ahead of another
constexpr std::size_t kept_programs = 256;

double interval_s(double timeout_s) { return std::clamp(timeout_s / 10, 0.01, 0.5); }

}  // namespace

double now_s() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

void raise(const Failure& failure) {
  switch (failure.kind) {
    case Kind::timeout:
      throw TransportTimeout(failure.what, failure.rank);
    case Kind::lost:
      throw PeerLostError(failure.what, failure.rank);
    case Kind::mismatch:
      throw MismatchError(failure.what, failure.rank);
    case Kind::schedule:
      throw ScheduleError(failure.what);
    case Kind::transport:
      break;
  }
  throw TransportError(failure.what, failure.rank);
}

Engine::Engine(std::shared_ptr<Transport> transport, EngineOptions options)
    : rank_(transport->rank()),
      ranks_(transport->ranks()),
      options_(std::move(options)),
      transport_(std::move(transport)),
      scratch_(options_.scratch_bytes),
      liveness_(ranks_, rank_),
      greeted_(ranks_, 0),
      wake_fd_(eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC)),
      process_(getpid()) {}

Engine::~Engine() {
  if (getpid() != process_) {
    // A forked child has neither the thread nor the right to the connections: leave both alone.
    thread_.detach();
    new std::shared_ptr<Transport>(std::move(transport_));
    new decltype(pending_)(std::move(pending_));
    return;
  }
  close(0);
}

void Engine::start(double timeout_s) {
  std::unique_lock driving(driving_);
  tell_all(Hello{1});
  greeted_[rank_] = 1;
  const auto missing = [this] { return std::find(greeted_.begin(), greeted_.end(), 0); };
  drive(driving, now_s() + timeout_s, [&] { return failure() || missing() == greeted_.end(); });
  if (!failure() && missing() != greeted_.end()) {
    const int rank = static_cast<int>(missing() - greeted_.begin());
    fail({Kind::timeout, rank,
          concat("rank ", rank_, ": rank ", rank, " did not connect over ", transport_->name(),
                 " within ", timeout_s, " s")},
         true);
  }
  if (const auto failed = failure()) raise(*failed);
  thread_ = std::thread([this] { thread_main(); });
}

std::shared_ptr<Ticket> Engine::submit(void* data, Call call, double timeout_s) {
  return submit(data, std::move(call), timeout_s, false, false);
}

std::shared_ptr<Ticket> Engine::submit_queued(void* data, Call call, double timeout_s) {
  return submit(data, std::move(call), timeout_s, true, true);
}

std::shared_ptr<Ticket> Engine::submit(void* data, Call call, double timeout_s, bool queued,
                                       bool wake) {
  program(call.key);  // a ScheduleError belongs to the caller
  auto ticket = std::make_shared<Ticket>();
  ticket->arrival_s = now_s();
  bool refused = false;  // once it is in the inbox, its being done is for the driver to tell
  {
    std::lock_guard lock(inbox_mutex_);
    ticket->seq = next_seq_++;
    if (failure_) {
      refused = true;
      ticket->failure = failure_;
      ticket->done = true;
    } else {
      inbox_.push_back({data, std::move(call), timeout_s, ticket, queued});
      if (wake) eventfd_write(wake_fd_, 1);
    }
  }
  if (refused) {
    if (queued) {
      std::lock_guard lock(done_mutex_);
      done_.push_back(ticket);
      done_changed_.notify_all();
    }
  } else if (wake) {
    if (drivers_ == 0) unpark();
  }
  return ticket;
}

bool Engine::wait(const Ticket& ticket, double slice_s) {
  const auto done = [&] { return ticket.done.load(std::memory_order_acquire); };
  if (done()) return true;
  const double began_s = now_s();
  ++drivers_;
  bool pending;
  {
    std::unique_lock driving(driving_, std::defer_lock);
    drive(driving, began_s + slice_s, [&] { return done() || stopping_; });
    pending = !pending_.empty();
  }
  // After a short drive another call is likely, and will take what is left along; the engine's
  // thread comes back by itself soon.
  const bool long_drive = now_s() > began_s + parked_s / 2;
  if (--drivers_ == 0 && (closed_ || (pending && long_drive))) unpark();
  return done();
}

// Turns until `done`, or `until_s` has passed. Ends with the lock held.
template <typename Done>
void Engine::drive(std::unique_lock<std::mutex>& driving, double until_s, Done done) {
  for (;;) {
    if (!driving.owns_lock()) take_over(driving);
    if (done()) return;
    if (turn()) continue;
    const double left_s = until_s - now_s();
    if (left_s <= 0) return;
    rest(std::min(left_s, longest_rest_s), driving);
  }
}

// The engine's thread leaves within a turn: shorter than falling asleep and being woken.
void Engine::take_over(std::unique_lock<std::mutex>& driving) {
  for (int i = 0; i < takeover_yields; ++i) {
    if (driving.try_lock()) return;
    sched_yield();
  }
  driving.lock();
}

void Engine::unpark() {
  std::lock_guard lock(parking_mutex_);
  parking_changed_.notify_all();
}

std::shared_ptr<Ticket> Engine::next_done(double timeout_s) {
  std::unique_lock lock(done_mutex_);
  done_changed_.wait_for(lock, std::chrono::duration<double>(timeout_s),
                         [this] { return done_ended_ || !done_.empty(); });
  if (done_.empty()) return nullptr;
  auto ticket = done_.front();
  done_.pop_front();
  return ticket;
}

void Engine::thread_main() {
  std::unique_lock driving(driving_, std::defer_lock);
  while (!stopping_) {
    if (drivers_ > 0) {
      if (driving.owns_lock()) driving.unlock();
      std::unique_lock parking(parking_mutex_);
      parking_changed_.wait_for(parking, std::chrono::duration<double>(parked_s));
      continue;
    }
    if (!driving.owns_lock()) driving.lock();
    if (!turn()) rest(pending_.empty() ? -1 : longest_rest_s, driving);
  }
}

bool Engine::turn() {
  bool busy = false;
  try {
    busy = take_submissions();
    transport_->progress(events_);
    if (!events_.empty()) {
      busy = true;
      handle(events_);
      events_.clear();
    }
    if (!pending_.empty()) {
      const double now = now_s();
      if (now >= next_check_s_) check_deadlines(now);
    } else {
      checked_s_ = 0;
    }
  } catch (const std::exception& error) {
    events_.clear();
    fail({Kind::transport, rank_, concat("rank ", rank_, ": ", error.what())}, true);
  }
  if (busy) idle_since_s_ = 0;
  return busy;
}

// Called after a turn without events: spins, then sleeps, at most `at_most_s` (< 0: for ever).
// Gives the lock up when it sleeps.
void Engine::rest(double at_most_s, std::unique_lock<std::mutex>& driving) {
  const double now = now_s();
  if (idle_since_s_ == 0) {
    idle_since_s_ = now;
    all_posted_ = false;
  }
  if (now < idle_since_s_ + options_.spin_s) {
    if (options_.shares_cores) sched_yield();
    return;
  }
  if (!all_posted_ && !pending_.empty()) {
    // A short idle is part of a busy exchange; a long one is a wait for a late rank: let
    // everything come. It also ends any wait that the window of receives could cause.
    if (now >= idle_since_s_ + idle_before_posting_all_s) {
      for (auto& [seq, pending] : pending_)
        if (pending.operation) pending.operation->post_receives(true);
      all_posted_ = true;
      return;
    }
    at_most_s = idle_before_posting_all_s;
  }
  if (!transport_->arm()) return;
  pollfd fds[8];
  nfds_t count = 0;
  fds[count++] = {wake_fd_, POLLIN, 0};
  for (const int fd : transport_->event_fds()) fds[count++] = {fd, POLLIN, 0};
  driving.unlock();
  const timespec limit{static_cast<time_t>(at_most_s),
                       static_cast<long>((at_most_s - static_cast<time_t>(at_most_s)) * 1e9)};
  ppoll(fds, count, at_most_s < 0 ? nullptr : &limit, nullptr);
  if (fds[0].revents & POLLIN) {
    eventfd_t value;
    eventfd_read(wake_fd_, &value);
  }
}

bool Engine::take_submissions() {
  bool any = false;
  for (;;) {
    Submission submission;
    {
      std::lock_guard lock(inbox_mutex_);
      if (inbox_.empty() || pending_.size() >= seq_ahead) return any;
      submission = std::move(inbox_.front());
      inbox_.pop_front();
    }
    any = true;
    arrive(submission);
  }
}

void Engine::arrive(Submission& submission) {
  const std::uint64_t seq = submission.ticket->seq;
  called_ = seq + 1;
  const auto [place, is_new] = pending_.try_emplace(seq);
  Pending& pending = place->second;
  pending.ticket = submission.ticket;
  pending.queued = submission.queued;
  pending.timeout_s = submission.timeout_s;
  if (!is_new && !(pending.call == submission.call)) {
    mismatch(seq, rank_, submission.call, pending.announced_by, pending.call);
    return;
  }
  next_check_s_ = 0;
  pending.call = std::move(submission.call);
  if (!pending.operation) prepare(seq, pending);
  std::vector<int> listeners = pending.operation->program().send_peers;
  const int next = (rank_ + 1) % ranks_;
  if (std::find(listeners.begin(), listeners.end(), next) == listeners.end())
    listeners.push_back(next);
  const std::string announcement = encode(Announcement{seq, pending.call});
  for (const int peer : listeners)
    if (peer != rank_) transport_->control(peer, announcement);
  for (const auto& [peer, called] : left_) {
    if (called <= seq) {
      fail_left(peer, called, seq);
      return;
    }
  }
  pending.operation->arrive(submission.data);
  admit();
  settle(seq);
}

void Engine::prepare(std::uint64_t seq, Pending& pending) {
  pending.operation = std::make_unique<Operation>(seq, pending.call, program(pending.call.key),
                                                  *transport_, scratch_);
}

// In order of their numbers, so that all ranks admit alike; the lowest always, whatever the others
// hold: every rank then works on the collective that every other waits for.
void Engine::admit() {
  bool lowest = true;
  std::vector<std::uint64_t> complete;  // an empty message has no event to complete it later
  for (auto& [seq, pending] : pending_) {
    if (!pending.admitted) {
      if (!pending.operation) break;
      const std::size_t bytes = Operation::most_scratch_bytes(pending.call);
      if (!lowest && admitted_bytes_ + bytes > options_.scratch_bytes) break;
      pending.admitted = true;
      admitted_bytes_ += bytes;
      pending.operation->admit();
      if (pending.operation->drained()) complete.push_back(seq);
    }
    lowest = false;
  }
  for (const std::uint64_t seq : complete) settle(seq);
}

void Engine::handle(const Events& events) {
  const double now = now_s();
  for (const auto& [from, bytes] : events.control) {
    liveness_.heard(from, now);
    if (const auto message = decode(bytes, ranks_))
      std::visit([&, from = from](const auto& m) { handle(from, m); }, *message);
    if (failure()) return;
  }
  for (const Token token : events.finished) {
    const auto ahead =
        static_cast<std::int32_t>(seq_of(token) - static_cast<std::uint32_t>(called_));
    const std::uint64_t seq =
        called_ + static_cast<std::uint64_t>(static_cast<std::int64_t>(ahead));
    const auto found = pending_.find(seq);
    if (found == pending_.end()) continue;
    found->second.operation->finished(step_of(token));
    settle(seq);
  }
  for (const Events::Lost& loss : events.lost) lost(loss);
}

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
}

void Engine::handle(int from, const Pulse& pulse) {
  liveness_.heard(from, now_s(), pulse.called);
  if (pulse.answer) tell(from, Pulse{called_, false});
}

void Engine::handle(int, const Abort& abort) {
  fail({static_cast<Kind>(std::min<int>(abort.kind, static_cast<int>(Kind::schedule))), abort.rank,
        abort.what},
       false);
}

void Engine::handle(int from, const Bye& bye) {
  left_[from] = bye.called;
  for (const auto& [seq, pending] : pending_) {
    if (seq >= bye.called && pending.ticket) {
      fail_left(from, bye.called, seq);
      return;
    }
  }
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

void Engine::settle(std::uint64_t seq) {
  const auto found = pending_.find(seq);
  if (found == pending_.end() || !found->second.ticket) return;
  Pending& pending = found->second;
  if (pending.operation->has_result() && !pending.ticket->done) finish(pending, nullptr);
  if (!pending.operation->drained()) return;
  pending.ticket->drained_s = now_s();
  if (pending.admitted) admitted_bytes_ -= Operation::most_scratch_bytes(pending.call);
  pending_.erase(found);
  admit();
}

void Engine::finish(Pending& pending, std::shared_ptr<const Failure> failure) {
  Ticket& ticket = *pending.ticket;
  ticket.failure = std::move(failure);
  ticket.finish_s = now_s();
  ticket.done.store(true, std::memory_order_release);
  if (!pending.queued) return;
  std::lock_guard lock(done_mutex_);
  done_.push_back(pending.ticket);
  done_changed_.notify_all();
}

void Engine::check_deadlines(double now) {
  double interval = 0.5;
  bool old = false;
  // A process that was itself held up (stopped, starved) has heard nobody: it asks again and gives
  // the others time to answer before it blames them.
  const bool held_up = checked_s_ != 0 && now > checked_s_ + interval_s(shortest_timeout_s_);
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
    auto [culprits, text] = liveness_.culprit(seq, now, interval);
    const int waits_for = pending.operation->waiting_for();
    const int named = culprits.empty() ? waits_for : culprits.front();
    fail({Kind::timeout, named,
          concat("collective ", seq, " (", describe(pending.call), ") did not finish within ",
                 pending.timeout_s, " s on rank ", rank_, ": ", text,
                 waits_for >= 0 ? concat("; it waited for rank ", waits_for) : "")},
         true);
    return;
  }
  if (old) {
    if (liveness_.due(now, interval)) tell_all(Pulse{called_, true});
  } else {
    liveness_.nothing_pending();
  }
  next_check_s_ = now + std::min(interval / 4, longest_rest_s);
}

void Engine::fail(Failure failure, bool tell) {
  if (this->failure()) return;
  if (tell) {
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

std::shared_ptr<const Program> Engine::program(const ScheduleKey& key) {
  std::lock_guard lock(programs_mutex_);
  for (auto entry = programs_.begin(); entry != programs_.end(); ++entry) {
    if (!(entry->first == key)) continue;
    programs_.splice(programs_.begin(), programs_, entry);
    return entry->second;
  }
  auto made = compile(options_.steps_source(key, ranks_, rank_), key.segments);
  programs_.emplace_front(key, made);
  if (programs_.size() > kept_programs) programs_.pop_back();
  return made;
}

void Engine::abort(const std::string& why) {
  std::unique_lock driving(driving_);
  if (!closed_) fail({Kind::transport, rank_, concat("rank ", rank_, " aborted: ", why)}, true);
}

void Engine::close(double timeout_s) {
  {
    std::unique_lock driving(driving_);
    if (closed_) return;
    closed_ = true;
    const auto sending = [this] {
      std::lock_guard lock(inbox_mutex_);
      return !inbox_.empty() ||
             std::any_of(pending_.begin(), pending_.end(),
                         [](const auto& entry) { return entry.second.ticket != nullptr; });
    };
    drive(driving, now_s() + timeout_s, [&] { return failure() || !sending(); });
    if (!failure()) {
      if (sending())
        fail({Kind::transport, rank_,
              concat("rank ", rank_, " closed its communicator with a collective pending")},
             true);
      else
        tell_all(Bye{called_});
    }
    if (!failure()) {
      const auto closed = std::make_shared<const Failure>(
          Failure{Kind::transport, rank_, "the communicator is closed"});
      std::deque<Submission> unstarted;
      {
        std::lock_guard lock(inbox_mutex_);
        failure_ = closed;
        std::swap(unstarted, inbox_);
      }
      refuse(unstarted, closed);
    }
    stopping_ = true;
  }
  eventfd_write(wake_fd_, 1);
  unpark();
  if (thread_.joinable()) thread_.join();
  {  // Callers in wait() leave within one rest.
    std::unique_lock lock(parking_mutex_);
    while (drivers_ > 0) parking_changed_.wait_for(lock, std::chrono::duration<double>(parked_s));
  }
  {
    std::lock_guard lock(done_mutex_);
    done_ended_ = true;
    done_changed_.notify_all();
  }
  std::unique_lock driving(driving_);
  transport_->close(std::min(timeout_s, 2.0));
  pending_.clear();
  failed_pending_.clear();
  ::close(wake_fd_);
}

std::shared_ptr<const Failure> Engine::failure() const {
  std::lock_guard lock(inbox_mutex_);
  return failure_;
}

std::size_t Engine::scratch_peak_bytes() {
  std::lock_guard lock(driving_);
  return scratch_.peak_bytes();
}

}  // namespace patallreduce
