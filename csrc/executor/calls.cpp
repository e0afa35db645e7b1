#include "executor/calls.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "clock.h"
#include "errors.h"

namespace patallreduce::executor {

namespace {

constexpr std::uint64_t seq_ahead = 512;   // how far a rank may run ahead of what it has finished
constexpr int most_segments_ahead = 4096;  // a program of more takes a while: not for others' sake

}  // namespace

Calls::Calls(Transport& transport, Memory& memory, Programs& programs, Plans& plans,
             Agreement& agreement, Outbox& outbox, ScheduleKey barrier)
    : rank_(transport.rank()),
      transport_(transport),
      memory_(memory),
      programs_(programs),
      plans_(plans),
      agreement_(agreement),
      outbox_(outbox),
      barrier_(std::move(barrier)) {}

bool Calls::take(Inbox& inbox) {
  bool any = false;
  for (;;) {
    if (!unplanned_) {
      const bool far_ahead = !pending_.empty() && pending_.begin()->first + seq_ahead <= called_;
      if (far_ahead || !(unplanned_ = inbox.take())) return any;
      any = true;
    }
    if (!resolve(*unplanned_)) {
      // No plan can come of a collective that a rank will never call.
      agreement_.check_present(unplanned_->ticket->seq);
      return any;
    }
    any = true;
    pending_.try_emplace(unplanned_->ticket->seq);  // without memory for it the call stays here
    Submission submission = std::move(*unplanned_);
    unplanned_.reset();
    arrive(submission);
    take_kept();
  }
}

// Settles the schedule of a planned call; false: no plan yet.
bool Calls::resolve(Submission& submission) const {
  Call& call = submission.call;
  if (!call.planned()) return true;
  if (const auto key = plans_.key_for(call)) {
    // Places are known too late for streams: there such a call keeps its own schedule.
    const bool follows = *key && !(submission.stream_queue && programs_.dynamic(**key));
    if (follows) call.key = **key;
    submission.ticket->planned = follows;
    return true;
  }
  const auto announced = pending_.find(submission.ticket->seq);
  if (announced == pending_.end()) return false;
  const Call& theirs = announced->second.call;
  if (!same_demand(theirs, call) || theirs.key == call.key) return true;
  // What a caller gave comes without its steps: the plan brings them.
  if (!programs_.knows(theirs.key)) return false;
  submission.ticket->planned = true;
  call.key = theirs.key;
  return true;
}

void Calls::arrive(Submission& submission) {
  const std::uint64_t seq = submission.ticket->seq;
  called_ = seq + 1;
  Pending& pending = pending_[seq];
  pending.ticket = submission.ticket;
  pending.timeout_s = submission.timeout_s;
  if (submission.call.planned()) plans_.note_arrival(submission.call, submission.stream_queue);
  if (pending.announced_by >= 0)
    Agreement::compare(seq, rank_, submission.call, pending.announced_by, pending.call);
  pending.call = std::move(submission.call);
  pending.ticket->key = pending.call.key;
  pending.data = submission.data;
  const bool dynamic = takes_places(pending.call);
  if (!dynamic && !pending.operation) make_operation(seq, pending, -1);
  agreement_.announce(seq, pending.call, dynamic ? nullptr : &pending.operation->program());
  agreement_.check_present(seq);
  if (dynamic) {
    note_arrival(seq, rank_);
    begin_dynamic(seq);
    return;
  }
  if (submission.stream_queue) submission.stream_queue->queue(pending.data, pending.call.key);
  pending.operation->arrive(pending.data);
  admit();
  settle(seq);
}

// A rank that only sends can be there long before this one.
bool Calls::far_ahead(std::uint64_t seq) const { return seq > called_ + 2 * seq_ahead; }

// Without it the ranks of a dynamic collective would wait for their places for ever.
void Calls::keep_for_later(std::uint64_t seq, int from, Message message) {
  const std::size_t most = seq_ahead * static_cast<std::size_t>(transport_.ranks());
  if (kept_.size() < most) kept_.emplace(seq, std::pair(from, std::move(message)));
}

void Calls::take_kept() {
  while (!kept_.empty() && !far_ahead(kept_.begin()->first)) {
    const auto [from, message] = std::move(kept_.extract(kept_.begin()).mapped());
    if (const auto* announcement = std::get_if<Announcement>(&message))
      note_announcement(from, *announcement);
    else
      bind_places(std::get<BindPlaces>(message));
  }
}

void Calls::note_announcement(int from, const Announcement& announcement) {
  const std::uint64_t seq = announcement.seq;
  if (far_ahead(seq)) {
    if (takes_places(announcement.call)) keep_for_later(seq, from, announcement);
    return;
  }
  const auto found = pending_.find(seq);
  if (found != pending_.end()) {
    const Pending& pending = found->second;
    Agreement::compare(seq, from, announcement.call, pending.ticket ? rank_ : pending.announced_by,
                       pending.call);
    if (agreement_.keeps_places() && takes_places(pending.call)) note_arrival(seq, from);
    return;
  }
  if (seq < called_) return;  // finished here: its tags matched the announcer's
  Pending& pending = pending_[seq];
  pending.call = announcement.call;
  pending.announced_by = from;
  if (takes_places(pending.call)) {
    note_arrival(seq, from);
    begin_dynamic(seq);
    return;
  }
  if (pending.call.key.segments > most_segments_ahead) return;  // this rank's own call will tell
  try {
    make_operation(seq, pending, -1);
  } catch (const ScheduleError&) {
    return;  // unknown here: this rank's own call will tell
  }
  admit();
}

// Whether its ranks take their places as they arrive.
bool Calls::takes_places(const Call& call) const {
  return call.carrier != Carrier::streams && programs_.dynamic(call.key);
}

// `place`: this rank's in a dynamic schedule, else -1.
void Calls::make_operation(std::uint64_t seq, Pending& pending, int place) {
  Call call = pending.call;
  if (call.carrier == Carrier::streams) {
    call = Call();
    call.key = barrier_;
    call.label = static_cast<std::int64_t>(hash(pending.call));
  }
  Scratch* const scratch = memory_.scratch_for(call);
  if (!scratch) return;  // announced before this rank has its GPU: its own call will tell
  auto program = programs_.get(call.key, place < 0 ? rank_ : place);
  pending.operation = std::make_unique<Operation>(seq, std::move(call), std::move(program), place,
                                                  transport_, *scratch);
}

void Calls::note_arrival(std::uint64_t seq, int rank) {
  for (const BindPlaces& told : agreement_.note_arrival(seq, rank)) bind_places(told);
}

void Calls::bind_places(const BindPlaces& told) {
  const bool over = told.seq < called_ && pending_.count(told.seq) == 0;
  if (over) return;
  if (far_ahead(told.seq)) return keep_for_later(told.seq, Places::keeper, told);
  agreement_.note_places(told);
  begin_dynamic(told.seq);
}

// Does what can be done of a dynamic collective, as its call, this rank's place and its neighbours
// become known, in any order. The last rank has a place before it arrives.
void Calls::begin_dynamic(std::uint64_t seq) {
  const auto found = pending_.find(seq);
  if (found == pending_.end()) return;
  Pending& pending = found->second;
  const std::vector<Place>& places = agreement_.places(seq);
  if (!pending.operation) {
    const auto own = std::find_if(places.begin(), places.end(),
                                  [this](const Place& place) { return place.rank == rank_; });
    if (own != places.end()) make_operation(seq, pending, own->place);
    if (!pending.operation) return;
  }
  // Who tells places called something else here; that the announcements tell.
  if (pending.operation->place() < 0) return agreement_.forget_places(seq);
  for (const Place& place : places) pending.operation->bind_place(place);
  agreement_.forget_places(seq);
  if (pending.ticket && !pending.operation->arrived()) {
    pending.ticket->place = pending.operation->place();
    pending.operation->arrive(pending.data);
  }
  admit();
  settle(seq);
}

// In order of their numbers, so that all ranks admit alike; the lowest always, whatever the others
// hold: every rank then works on the collective that every other waits for.
void Calls::admit() {
  bool lowest = true;
  std::vector<std::uint64_t> complete;  // an empty message has no event to complete it later
  for (auto& [seq, pending] : pending_) {
    if (!pending.admitted) {
      if (!pending.operation) break;
      const std::size_t bytes = pending.operation->most_scratch_bytes();
      if (!lowest && admitted_bytes_ + bytes > memory_.limit_bytes()) break;
      pending.admitted = true;
      admitted_bytes_ += bytes;
      pending.operation->admit();
      if (pending.operation->drained()) complete.push_back(seq);
    }
    lowest = false;
  }
  for (const std::uint64_t seq : complete) settle(seq);
}

void Calls::note_finished(Token token) {
  const auto ahead = static_cast<std::int32_t>(seq_of(token) - static_cast<std::uint32_t>(called_));
  const std::uint64_t seq = called_ + static_cast<std::uint64_t>(static_cast<std::int64_t>(ahead));
  const auto found = pending_.find(seq);
  if (found == pending_.end()) return;
  found->second.operation->finished(step_of(token));
  settle(seq);
}

// Is the result there? Is all sent?
void Calls::settle(std::uint64_t seq) {
  const auto found = pending_.find(seq);
  if (found == pending_.end() || !found->second.ticket || !found->second.operation) return;
  Pending& pending = found->second;
  if (pending.operation->has_result() && !pending.ticket->done)
    outbox_.finish(pending.ticket, nullptr);
  if (!pending.operation->drained()) return;
  pending.ticket->drained_s = now_s();
  if (pending.admitted) admitted_bytes_ -= pending.operation->most_scratch_bytes();
  pending_.erase(found);
  admit();
}

void Calls::post_receives() {
  for (auto& [seq, pending] : pending_)
    if (pending.operation) pending.operation->post_receives(true);
}

void Calls::check_present() const {
  for (const auto& [seq, pending] : pending_)
    if (pending.ticket) agreement_.check_present(seq);
  if (unplanned_) agreement_.check_present(unplanned_->ticket->seq);
}

}  // namespace patallreduce::executor
