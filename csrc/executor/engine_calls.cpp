// A collective's way through an engine: called or announced, admitted, settled.
#include <sys/eventfd.h>

#include <algorithm>

#include "errors.h"
#include "executor/engine.h"

namespace patallreduce::executor {

using reduction::size_of;
using schedule::Plan;
using schedule::PlannedBucket;
using schedule::ScheduleKey;
using schedule::Steps;
using transport::Events;
using transport::Token;

namespace {

constexpr std::size_t kept_programs = 256;

}  // namespace

bool Engine::take_submissions() {
  bool any = false;
  for (;;) {
    if (!unplanned_) {
      std::lock_guard lock(inbox_mutex_);
      if (inbox_.empty() || pending_.size() >= seq_ahead) return any;
      if (inbox_.front().ticket->coming) return any;
      unplanned_ = std::make_unique<Submission>(std::move(inbox_.front()));
      inbox_.pop_front();
      any = true;
    }
    if (!resolve(*unplanned_)) {
      // No plan can come of a collective that a rank will never call.
      const std::uint64_t seq = unplanned_->ticket->seq;
      for (const auto& [peer, called] : left_) {
        if (called > seq) continue;
        fail_left(peer, called, seq);
        return true;
      }
      return any;
    }
    any = true;
    const auto submission = std::move(unplanned_);
    arrive(*submission);
  }
}

// What its plan says of a call: null for nothing, no value for no plan yet. inbox_mutex_ is held.
std::optional<const ScheduleKey*> Engine::planned_key(const Call& call) const {
  const auto stream = plans_.find(call.stream);
  if (stream == plans_.end()) return std::nullopt;
  const auto& kept = stream->second.kept;
  const auto plan = kept.find(call.iteration);
  if (plan == kept.end()) return std::nullopt;
  const auto& buckets = plan->second->buckets;
  const auto index = static_cast<std::size_t>(call.label);
  const bool named = index < buckets.size() && buckets[index].elements == call.count &&
                     buckets[index].element_bytes == size_of(call.dtype);
  return named ? &buckets[index].key : nullptr;
}

std::string Engine::algorithm_now(const Call& call) const {
  if (!call.planned()) return call.key.algorithm;
  std::lock_guard lock(inbox_mutex_);
  const auto key = planned_key(call);
  if (!key) return "";
  return *key ? (*key)->algorithm : call.key.algorithm;
}

// Settles the schedule of a planned call; false: no plan yet.
bool Engine::resolve(Submission& submission) {
  Call& call = submission.call;
  if (!call.planned()) return true;
  {
    std::lock_guard lock(inbox_mutex_);
    if (const auto key = planned_key(call)) {
      // Places are known too late for streams: there such a call keeps its own schedule.
      const bool follows =
          *key && !(submission.stream_queue && options_.steps_source.dynamic(**key));
      if (follows) call.key = **key;
      submission.ticket->planned = follows;
      return true;
    }
    if (plans_end_) {
      const auto& last = plans_end_->last;
      const auto of_stream = std::find_if(
          last.begin(), last.end(), [&](const auto& entry) { return entry.first == call.stream; });
      if (of_stream == last.end() || call.iteration > of_stream->second) return true;
    }
  }
  const auto announced = pending_.find(submission.ticket->seq);
  if (announced == pending_.end()) return false;
  if (same_demand(announced->second.call, call)) {
    submission.ticket->planned = !(call.key == announced->second.call.key);
    call.key = announced->second.call.key;
  }
  return true;
}

void Engine::plan(std::shared_ptr<const Plan> plan) {
  std::shared_ptr<StreamQueue> queue;
  {
    std::lock_guard lock(inbox_mutex_);
    queue = plans_[plan->stream].stream_queue.lock();
  }
  try {  // off the critical path
    for (const PlannedBucket& bucket : plan->buckets) {
      if (!queue)
        program(bucket.key, rank_);
      else if (!options_.steps_source.dynamic(bucket.key))
        queue->prepare(bucket.key);
    }
  } catch (const ScheduleError&) {  // the call that needs it will tell
  }
  {
    std::lock_guard lock(inbox_mutex_);
    StreamPlans& stream = plans_[plan->stream];
    const std::int64_t iteration = plan->iteration;
    stream.newest = std::max(stream.newest, iteration);
    // A rank can be as many iterations ahead of this one as it has asynchronous calls in flight.
    if (iteration >= stream.resolved) stream.kept[iteration] = std::move(plan);
    eventfd_write(wake_fd_, 1);  // -1 once closed
  }
  if (drivers_ == 0) unpark();
}

void Engine::end_plans(const std::string& reason) {
  {
    std::lock_guard lock(inbox_mutex_);
    if (plans_end_) return;
    PlansEnd end{reason, {}};
    for (const auto& [stream, plans] : plans_)
      if (plans.newest >= 0) end.last.emplace_back(stream, plans.newest);
    plans_end_ = std::move(end);
    plans_end_untold_ = true;
    eventfd_write(wake_fd_, 1);
  }
  if (drivers_ == 0) unpark();
}

std::optional<std::string> Engine::plans_ended() const {
  std::lock_guard lock(inbox_mutex_);
  if (!plans_end_) return std::nullopt;
  return plans_end_->reason;
}

void Engine::arrive(Submission& submission) {
  const std::uint64_t seq = submission.ticket->seq;
  called_ = seq + 1;
  if (submission.call.planned()) {
    std::lock_guard lock(inbox_mutex_);
    StreamPlans& stream = plans_[submission.call.stream];
    stream.resolved = submission.call.iteration;
    stream.stream_queue = submission.stream_queue;
    stream.kept.erase(stream.kept.begin(), stream.kept.lower_bound(stream.resolved));
  }
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
  pending.ticket->key = pending.call.key;
  pending.data = submission.data;
  const bool takes_place = dynamic(pending.call);
  std::vector<int> listeners{0};
  if (!takes_place) {
    if (!pending.operation) prepare(seq, pending);
    listeners = pending.operation->program().send_peers;
  }
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
  if (takes_place) {
    if (rank_ == 0) line_up(seq, rank_);
    begin_dynamic(seq);
    return;
  }
  if (submission.stream_queue) submission.stream_queue->queue(pending.data, pending.call.key);
  pending.operation->arrive(pending.data);
  admit();
  settle(seq);
}

// Whether its ranks take their places as they arrive.
bool Engine::dynamic(const Call& call) const {
  return call.carrier != Carrier::streams && options_.steps_source.dynamic(call.key);
}

void Engine::prepare(std::uint64_t seq, Pending& pending) {
  if (pending.call.carrier == Carrier::streams) {
    Call barrier;
    barrier.key = options_.barrier;
    barrier.label = static_cast<std::int64_t>(hash(pending.call));
    pending.operation = std::make_unique<Operation>(seq, barrier, program(barrier.key, rank_), -1,
                                                    *transport_, scratch_);
    return;
  }
  Scratch* const scratch = scratch_for(pending.call);
  if (!scratch) return;  // announced before this rank has its GPU: its own call will tell
  pending.operation = std::make_unique<Operation>(
      seq, pending.call, program(pending.call.key, rank_), -1, *transport_, *scratch);
}

// On rank 0: another one has arrived at a dynamic collective.
void Engine::line_up(std::uint64_t seq, int rank) {
  for (const auto& [to, places] : lineup_.arrived(seq, rank)) {
    if (to == rank_)
      handle(rank_, Places{seq, places});
    else
      tell(to, Places{seq, places});
  }
}

// Does what can be done of a dynamic collective, as its call, this rank's place and its neighbours
// become known, in any order. The last rank has a place before it arrives.
void Engine::begin_dynamic(std::uint64_t seq) {
  const auto found = pending_.find(seq);
  if (found == pending_.end()) return;
  Pending& pending = found->second;
  std::vector<Place>& places = places_[seq];
  if (!pending.operation) {
    const auto own = std::find_if(places.begin(), places.end(),
                                  [this](const Place& place) { return place.rank == rank_; });
    Scratch* const scratch = scratch_for(pending.call);
    if (own == places.end() || !scratch) return;
    pending.operation =
        std::make_unique<Operation>(seq, pending.call, program(pending.call.key, own->place),
                                    own->place, *transport_, *scratch);
  }
  for (const Place& place : places) pending.operation->stand(place);
  places_.erase(seq);
  if (pending.ticket && !pending.operation->arrived()) {
    pending.ticket->place = pending.operation->place();
    pending.operation->arrive(pending.data);
  }
  admit();
  settle(seq);
}

// In order of their numbers, so that all ranks admit alike; the lowest always, whatever the others
// hold: every rank then works on the collective that every other waits for.
void Engine::admit() {
  bool lowest = true;
  std::vector<std::uint64_t> complete;  // an empty message has no event to complete it later
  for (auto& [seq, pending] : pending_) {
    if (!pending.admitted) {
      if (!pending.operation) break;
      const std::size_t bytes = pending.operation->most_scratch_bytes();
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
void Engine::settle(std::uint64_t seq) {
  const auto found = pending_.find(seq);
  if (found == pending_.end() || !found->second.ticket || !found->second.operation) return;
  Pending& pending = found->second;
  if (pending.operation->has_result() && !pending.ticket->done) finish(pending, nullptr);
  if (!pending.operation->drained()) return;
  pending.ticket->drained_s = now_s();
  if (pending.admitted) admitted_bytes_ -= pending.operation->most_scratch_bytes();
  pending_.erase(found);
  admit();
}

void Engine::finish(Pending& pending, std::shared_ptr<const Failure> failure) {
  Ticket& ticket = *pending.ticket;
  ticket.failure = std::move(failure);
  ticket.finish_s = now_s();
  ticket.done.store(true, std::memory_order_release);
  if (ticket.on_done) ticket.on_done();
  if (!pending.queued) return;
  std::lock_guard lock(done_mutex_);
  done_.push_back(pending.ticket);
  done_changed_.notify_all();
}
// `place`: this rank's, which is its number but in a dynamic schedule.
std::shared_ptr<const Program> Engine::program(const ScheduleKey& key, int place) {
  std::lock_guard lock(programs_mutex_);
  for (auto entry = programs_.begin(); entry != programs_.end(); ++entry) {
    if (entry->place != place || !(entry->key == key)) continue;
    programs_.splice(programs_.begin(), programs_, entry);
    return entry->program;
  }
  Steps steps = options_.steps_source.steps(key, ranks_, place);
  auto made = compile(std::move(steps), key.segments, options_.steps_source.collective(key), ranks_,
                      place == key.root);
  programs_.push_front({key, place, made});
  if (programs_.size() > kept_programs) programs_.pop_back();
  return made;
}
}  // namespace patallreduce::executor
