// Who waits for whom, prepared once; pricing/run.cpp lets the time pass.
#include "pricing/simulator.h"

#include <algorithm>
#include <numeric>

#include "errors.h"
#include "schedule/messages.h"
#include "schedule/order.h"
#include "schedule/sum_order.h"

namespace patallreduce::pricing {

using schedule::match;
using schedule::Messages;
using schedule::Order;
using schedule::order_of;
using schedule::Schedule;
using schedule::Step;
using schedule::Steps;
using schedule::sum_orders;
using schedule::Verb;

double Outcome::average_elapsed_s(const std::vector<double>& arrivals_s) const {
  double elapsed_s = std::accumulate(finish_s.begin(), finish_s.end(), 0.0);
  elapsed_s -= std::accumulate(arrivals_s.begin(), arrivals_s.end(), 0.0);
  return elapsed_s / static_cast<double>(finish_s.size());
}

double Outcome::after_last_arrival_s(const std::vector<double>& arrivals_s) const {
  const double finish = *std::max_element(finish_s.begin(), finish_s.end());
  if (arrivals_s.empty()) return finish;
  return finish - *std::max_element(arrivals_s.begin(), arrivals_s.end());
}

Simulation::Simulation(const Schedule& schedule)
    : ranks_(schedule.problem.ranks), segments_(schedule.problem.segments) {
  const Messages messages = match(schedule);
  PATR_CHECK(messages.partner.size() < (1u << 31), ScheduleError,
             "expected fewer than 2^31 steps to simulate, got ", messages.partner.size());
  tasks_.reserve(messages.partner.size() + 1);
  for (int rank = 0; rank < ranks_; ++rank) add_rank(schedule, rank, messages.begin[rank]);
  for (std::size_t n = 0; n < tasks_.size(); ++n) {
    tasks_[n].partner = static_cast<std::int32_t>(messages.partner[n]);
  }
  tasks_.push_back({});
  tasks_.back().unlocks_begin = static_cast<std::int32_t>(unlocks_.size());
  check_progress(schedule);
}

// What a step needs besides the ordering rule is the executor's: executor/program.cpp says which
// steps make the result, executor/operation.cpp which wait for the arrival.
void Simulation::add_rank(const Schedule& schedule, int rank, std::size_t begin) {
  const Steps& steps = schedule.steps[rank];
  const Order order = order_of(steps, segments_);
  const std::int32_t first_task = static_cast<std::int32_t>(begin);
  const auto edges = static_cast<std::int32_t>(unlocks_.size());
  std::vector<char> written(segments_, 0);
  for (std::size_t i = 0; i < steps.size(); ++i) {
    const Step& step = steps[i];
    Task task{};
    task.rank = rank;
    task.peer = step.peer;
    task.unlocks_begin = edges + order.unlocks_begin[i];
    task.waits = order.waits[i];
    task.first = step.first;
    task.last = step.last;
    task.verb = step.verb;
    task.needs_arrival = step.verb == Verb::recv_reduce;
    for (int s = step.first; s < step.last; ++s) {
      if (step.verb == Verb::send)
        task.needs_arrival |= !written[s];
      else
        written[s] = 1;
    }
    if (task.waits == 0) starters_.push_back(first_task + static_cast<std::int32_t>(i));
    tasks_.push_back(task);
  }
  for (const std::int32_t later : order.unlocks) unlocks_.push_back(first_task + later);

  std::vector<char> written_later(segments_, 0);
  std::int32_t needed = 0;
  for (std::size_t i = steps.size(); i-- > 0;) {
    Task& task = tasks_[begin + i];
    for (int s = task.first; s < task.last; ++s) {
      if (task.verb == Verb::send) {
        // Never written here (a reduce's other ranks): the caller's memory is free once it is sent.
        task.needed |= !written[s];
      } else {
        task.needed |= !written_later[s];
        written_later[s] = 1;
      }
    }
    task.needs_arrival |= task.verb == Verb::recv && task.needed;
    needed += task.needed;
  }
  needed_.push_back(needed);
}

// Lets every step happen as soon as it can, without time.
void Simulation::check_progress(const Schedule& schedule) const {
  const std::size_t count = tasks_.size() - 1;
  std::vector<std::int32_t> waits(count);
  for (std::size_t n = 0; n < count; ++n) {
    waits[n] = tasks_[n].waits + (tasks_[n].verb != Verb::send);
  }
  std::vector<std::int32_t> ready;
  for (const std::int32_t n : starters_) {
    if (waits[n] == 0) ready.push_back(n);
  }
  std::size_t done = 0;
  const auto release = [&](std::int32_t n) {
    if (--waits[n] == 0) ready.push_back(n);
  };
  for (; !ready.empty(); ++done) {
    const std::int32_t n = ready.back();
    ready.pop_back();
    for (auto u = tasks_[n].unlocks_begin; u < tasks_[n + 1].unlocks_begin; ++u) {
      release(unlocks_[u]);
    }
    if (tasks_[n].verb == Verb::send) release(tasks_[n].partner);
  }
  if (done == count) return;
  sum_orders(schedule);  // waits for at least as much, and names the circle
  throw ScheduleError("deadlock: some steps wait for each other");
}

Outcome simulate(const Schedule& schedule, std::uint64_t message_bytes, const Link& link,
                 const std::vector<double>& arrivals_s) {
  return Simulation(schedule).run(message_bytes, link, arrivals_s);
}

}  // namespace patallreduce::pricing
