// Collectives that are done: tells their tickets, and keeps those that a thread of the caller
// fetches. Needs no memory to do so.
#pragma once

#include <condition_variable>
#include <memory>
#include <mutex>

#include "executor/ticket.h"

namespace patallreduce::executor {

class Outbox {
 public:
  // The ticket is done: with a result, where `failure` is null. `queued`: next() is to return it.
  void finish(const std::shared_ptr<Ticket>& ticket, bool queued,
              std::shared_ptr<const Failure> failure);
  void put(std::shared_ptr<Ticket> ticket);
  // The next one that was put; null after `timeout_s` or at the end.
  std::shared_ptr<Ticket> next(double timeout_s);
  void end();

 private:
  std::mutex mutex_;  // guards all
  std::condition_variable changed_;
  std::shared_ptr<Ticket> first_, last_;
  bool ended_ = false;
};

}  // namespace patallreduce::executor
