// What is left of calls when an engine ends, or closes.
#include <algorithm>
#include <cmath>

#include "errors.h"
#include "executor/calls.h"

namespace patallreduce::executor {

std::uint64_t Calls::completed() const {
  for (const auto& [seq, pending] : pending_)
    if (pending.ticket && !pending.ticket->done) return seq;
  return called_;
}

double Calls::owes_until_s() const {
  double until_s = -HUGE_VAL;
  for (const auto& [seq, pending] : pending_)
    if (pending.ticket && pending.ticket->done)
      until_s = std::max(until_s, pending.ticket->arrival_s + pending.timeout_s);
  return until_s;
}

std::optional<Failure> Calls::owes() const {
  std::optional<Failure> first;
  for (const auto& [seq, pending] : pending_) {
    if (!pending.ticket) continue;
    if (!pending.ticket->done) return std::nullopt;
    const int to = pending.operation->sending_to();
    if (first || to < 0) continue;
    first = Failure{Kind::timeout, to,
                    concat("rank ", to, " did not take what rank ", rank_,
                           " sent it of collective ", seq, " (", describe(pending.call),
                           ") within ", pending.timeout_s, " s, and rank ", rank_, " closes")};
  }
  return first;
}

bool Calls::sending() const {
  return unplanned_ || std::any_of(pending_.begin(), pending_.end(), [](const auto& entry) {
           return entry.second.ticket != nullptr;
         });
}

std::string Calls::during() const {
  if (pending_.empty() || !pending_.begin()->second.ticket) return "";
  const auto& [seq, first] = *pending_.begin();
  return concat(" during collective ", seq, " (", describe(first.call), ")");
}

void Calls::end(std::shared_ptr<const Failure> failure) {
  for (auto& [seq, pending] : pending_)
    if (pending.ticket && !pending.ticket->done) outbox_.finish(pending.ticket, failure);
  if (unplanned_) outbox_.finish(unplanned_->ticket, failure);
  unplanned_.reset();
}

}  // namespace patallreduce::executor
