#include "executor/outbox.h"

#include <chrono>

#include "clock.h"

namespace patallreduce::executor {

// Whoever sees second what both have noted, that it is done and expected, puts it.
void Outbox::finish(const std::shared_ptr<Ticket>& ticket, std::shared_ptr<const Failure> failure) {
  ticket->failure = std::move(failure);
  ticket->finish_s = now_s();
  ticket->done = true;
  if (ticket->on_done) ticket->on_done();
  if (ticket->expected.exchange(false)) put(ticket);
}

void Outbox::expect(const std::shared_ptr<Ticket>& ticket) {
  ticket->expected = true;
  if (ticket->done && ticket->expected.exchange(false)) put(ticket);
}

void Outbox::put(const std::shared_ptr<Ticket>& ticket) {
  std::lock_guard lock(mutex_);
  (last_ ? last_->next : first_) = ticket;
  last_ = ticket;
  changed_.notify_all();
}

std::shared_ptr<Ticket> Outbox::next(double timeout_s) {
  std::unique_lock lock(mutex_);
  changed_.wait_for(lock, std::chrono::duration<double>(timeout_s),
                    [this] { return ended_ || first_; });
  const auto ticket = first_;
  if (!ticket) return nullptr;
  first_ = std::move(ticket->next);
  if (!first_) last_ = nullptr;
  return ticket;
}

void Outbox::end() {
  std::lock_guard lock(mutex_);
  ended_ = true;
  changed_.notify_all();
}

}  // namespace patallreduce::executor
