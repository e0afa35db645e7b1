// Calls on their way from callers, of any thread, to whoever drives the engine. It numbers them,
// and after the end it refuses them.
#pragma once

#include <deque>
#include <memory>
#include <mutex>
#include <optional>

#include "executor/call.h"
#include "executor/stream_queue.h"
#include "executor/ticket.h"

namespace patallreduce::executor {

struct Submission {
  void* data;
  Call call;
  double timeout_s;
  std::shared_ptr<Ticket> ticket;
  std::shared_ptr<StreamQueue> stream_queue;  // null: the data come this way
};

class Inbox {
 public:
  // Numbers the call. False: after the end; then the ticket is done and failed.
  bool put(Submission submission);
  // The contribution of a call that was put ahead is there. False: it is not here any more.
  bool mark_ready(Ticket& ticket, double timeout_s);
  // The oldest, once its contribution is there.
  std::optional<Submission> take();
  bool empty() const;

  // Refuses calls from here on; returns those that nobody has taken.
  std::deque<Submission> end(std::shared_ptr<const Failure> failure);
  std::shared_ptr<const Failure> failure() const;  // null: not ended

 private:
  mutable std::mutex mutex_;  // guards all
  std::deque<Submission> submissions_;
  std::uint64_t next_seq_ = 0;
  std::shared_ptr<const Failure> failure_;
};

}  // namespace patallreduce::executor
