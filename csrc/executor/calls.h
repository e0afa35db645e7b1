// A collective's way through an engine: called here or announced by another rank, admitted once
// there is scratch for it, settled once its result is there and all is sent.
//
// A planned call that has no plan yet holds up the calls behind it; another rank's announcement is
// as good as the plan, since every rank takes its schedules from the same one. The call is hashed
// into the tags as well, so data of another call is never received.
// What its functions throw ends the communicator.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "executor/agreement.h"
#include "executor/inbox.h"
#include "executor/memory.h"
#include "executor/operation.h"
#include "executor/outbox.h"
#include "executor/plans.h"
#include "executor/programs.h"
#include "executor/watch.h"
#include "transport/transport.h"

namespace patallreduce::executor {

class Calls {
 public:
  // `barrier`: what runs here of calls on streams.
  Calls(Transport& transport, Memory& memory, Programs& programs, Plans& plans,
        Agreement& agreement, Outbox& outbox, ScheduleKey barrier);

  // Calls of this rank arrive, as many as can. False: none.
  bool take(Inbox& inbox);
  // Another rank has arrived.
  void note_announcement(int from, const Announcement& announcement);
  void bind_places(const BindPlaces& told);
  // The transport has finished what an operation posted.
  void note_finished(Token token);
  // Every receive that can be posted is.
  void post_receives();
  // Throws PeerLostError if a rank has closed before it called what was called here.
  void check_present() const;

  // How many collectives, the first ones, have their results here.
  std::uint64_t completed() const;
  std::uint64_t called() const { return called_ + (unplanned_ ? 1 : 0); }
  // Whether something called here waits, or was announced.
  bool pending() const { return !pending_.empty() || unplanned_; }
  bool in_flight() const { return !pending_.empty(); }
  // Whether something called here is not over.
  bool sending() const;
  // The last deadline of those whose results are here and still on their way to others;
  // -infinite: none.
  double owes_until_s() const;
  // What others have not taken of what this rank sends, once nothing else is left; empty: nothing.
  std::optional<Failure> owes() const;
  // " during collective ..." for messages; empty: during none that was called here.
  std::string during() const;
  // In the order of their numbers; `see` takes a Waiting.
  template <typename See>
  void each_waiting(See see) const;

  // Ends everything that was called here.
  void end(std::shared_ptr<const Failure> failure);
  // The transport touches nothing any more.
  void clear() { pending_.clear(); }

 private:
  struct Pending {  // one collective: called here, announced by others, or both
    Call call;
    int announced_by = -1;
    std::unique_ptr<Operation> operation;  // null: unknown schedule, or no place in it yet
    bool admitted = false;
    void* data = nullptr;            // once called
    std::shared_ptr<Ticket> ticket;  // null: not called here yet
    double timeout_s = 0;
  };

  bool far_ahead(std::uint64_t seq) const;
  void keep_for_later(std::uint64_t seq, int from, Message message);
  void take_kept();
  bool resolve(Submission& submission) const;
  void arrive(Submission& submission);
  bool takes_places(const Call& call) const;
  void make_operation(std::uint64_t seq, Pending& pending, int place);
  void note_arrival(std::uint64_t seq, int rank);
  void begin_dynamic(std::uint64_t seq);
  void admit();
  void settle(std::uint64_t seq);

  const int rank_;
  Transport& transport_;
  Memory& memory_;
  Programs& programs_;
  Plans& plans_;
  Agreement& agreement_;
  Outbox& outbox_;
  const ScheduleKey barrier_;

  std::map<std::uint64_t, Pending> pending_;
  std::multimap<std::uint64_t, std::pair<int, Message>> kept_;  // of collectives far ahead
  std::optional<Submission> unplanned_;  // the next to arrive waits for its plan
  std::size_t admitted_bytes_ = 0;
  std::uint64_t called_ = 0;
};

template <typename See>
void Calls::each_waiting(See see) const {
  for (const auto& [seq, pending] : pending_) {
    if (!pending.ticket || pending.ticket->done) continue;
    see(Waiting{seq, pending.call, pending.ticket->arrival_s, pending.timeout_s,
                pending.operation.get(), false});
  }
  if (!unplanned_) return;
  const Ticket& ticket = *unplanned_->ticket;
  see(Waiting{ticket.seq, unplanned_->call, ticket.arrival_s, unplanned_->timeout_s, nullptr,
              true});
}

}  // namespace patallreduce::executor
