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
  // The ticket is done: with a result, where `failure` is null.
  void finish(const std::shared_ptr<Ticket>& ticket, std::shared_ptr<const Failure> failure);
  // next() is to return the ticket once it is done, which it may be. Once for each.
  void expect(const std::shared_ptr<Ticket>& ticket);
  // The next one that is expected and done; null after `timeout_s` or at the end.
  std::shared_ptr<Ticket> next(double timeout_s);
  void end();

 private:
  void put(const std::shared_ptr<Ticket>& ticket);

  std::mutex mutex_;  // guards all
  std::condition_variable changed_;
  std::shared_ptr<Ticket> first_, last_;
  bool ended_ = false;
};

}  // namespace patallreduce::executor
