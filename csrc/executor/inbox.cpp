#include "executor/inbox.h"

#include <algorithm>
#include <utility>

#include "clock.h"

namespace patallreduce::executor {

bool Inbox::put(Submission submission) {
  std::lock_guard lock(mutex_);
  Ticket& ticket = *submission.ticket;
  ticket.seq = next_seq_;
  if (failure_) {
    ticket.failure = failure_;
    ticket.done = true;
  } else {
    submissions_.push_back(std::move(submission));
  }
  ++next_seq_;  // not of a call for which there is no memory
  return !failure_;
}

bool Inbox::mark_ready(Ticket& ticket, double timeout_s) {
  std::lock_guard lock(mutex_);
  const auto found =
      std::find_if(submissions_.begin(), submissions_.end(),
                   [&](const Submission& one) { return one.ticket.get() == &ticket; });
  if (found == submissions_.end()) return false;
  found->timeout_s = timeout_s;
  ticket.arrival_s = now_s();
  ticket.ready = true;
  return true;
}

std::optional<Submission> Inbox::take() {
  std::lock_guard lock(mutex_);
  if (submissions_.empty() || !submissions_.front().ticket->ready) return std::nullopt;
  std::optional<Submission> oldest(std::move(submissions_.front()));
  submissions_.pop_front();
  return oldest;
}

bool Inbox::empty() const {
  std::lock_guard lock(mutex_);
  return submissions_.empty();
}

std::deque<Submission> Inbox::end(std::shared_ptr<const Failure> failure) {
  std::lock_guard lock(mutex_);
  std::deque<Submission> unstarted;
  unstarted.swap(submissions_);
  failure_ = std::move(failure);
  return unstarted;
}

std::shared_ptr<const Failure> Inbox::failure() const {
  std::lock_guard lock(mutex_);
  return failure_;
}

}  // namespace patallreduce::executor
