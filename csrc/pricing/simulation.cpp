// Who waits for whom, prepared once; pricing/ports.h lets the time pass.
#include "pricing/simulation.h"

#include "errors.h"
#include "pricing/ports.h"
#include "schedule/messages.h"
#include "schedule/needs.h"
#include "schedule/order.h"
#include "schedule/print.h"

namespace patallreduce::pricing {

using schedule::match;
using schedule::Needs;
using schedule::needs_of;
using schedule::Order;
using schedule::order_of;
using schedule::Step;

Simulation::Simulation(const Schedule& schedule)
    : ranks_(schedule.problem.ranks), segments_(schedule.problem.segments) {
  const Messages messages = match(schedule);
  const std::size_t count = messages.partner.size();
  PATR_CHECK(count < (1u << 31), ScheduleError, "expected fewer than 2^31 steps to simulate, got ",
             count);
  tasks_.reserve(count);
  unlocks_begin_.reserve(count + 1);
  begin_.assign(messages.begin.begin(), messages.begin.end());
  for (int rank = 0; rank < ranks_; ++rank) add_rank(schedule.steps[rank], messages);
  unlocks_begin_.push_back(static_cast<std::int32_t>(unlocks_.size()));
}

void Simulation::add_rank(const Steps& steps, const Messages& messages) {
  const Order order = order_of(steps, segments_);
  const Needs needs = needs_of(steps, segments_);
  const auto first_task = static_cast<std::int32_t>(tasks_.size());
  const auto first_unlock = static_cast<std::int32_t>(unlocks_.size());
  for (std::size_t i = 0; i < steps.size(); ++i) {
    const Step& step = steps[i];
    const auto partner = static_cast<std::int32_t>(messages.partner[tasks_.size()]);
    tasks_.push_back({step.peer, step.first, step.last, partner, order.waits[i], -1, step.verb,
                      needs.arrival[i] != 0, false});
    unlocks_begin_.push_back(first_unlock + order.unlocks_begin[i]);
  }
  for (const std::int32_t later : order.unlocks) unlocks_.push_back(first_task + later);
}

// What one run does with a Simulation's tasks.
class PreparedSteps {
 public:
  using Task = Simulation::Task;

  static constexpr bool on_networks = false, paced = false;

  struct Landing {
    std::int32_t from, to, first, last;
    std::int32_t& record;
  };

  explicit PreparedSteps(const Simulation& simulation)
      : simulation_(simulation), tasks_(simulation.tasks_) {}

  int ranks() const { return simulation_.ranks_; }
  int segments() const { return simulation_.segments_; }
  Task& at(std::int32_t, std::int32_t n) { return tasks_[n]; }

  // Of messages from the rank to that step's peer.
  std::int32_t channel(std::int32_t rank, std::int32_t n) const {
    return rank * simulation_.ranks_ + tasks_[n].peer;
  }

  // A message is known by the rank and task that receive it.
  MessageId depart(std::int32_t, std::int32_t n) const {
    return {tasks_[n].peer, tasks_[n].partner};
  }

  Landing landing(std::int32_t rank, std::int32_t receive) {
    const Task& task = tasks_[receive];
    return {task.peer, rank, task.first, task.last, tasks_[task.partner].record};
  }

  StepId deliver(std::int32_t rank, std::int32_t receive) {
    Task& task = tasks_[receive];
    task.landed = true;
    if (task.waits == 0) task.record = tasks_[task.partner].record;
    return {rank, receive};
  }

  void lines_up(std::int32_t, std::int32_t) {}

  template <typename Unlocked>
  void finish(std::int32_t, std::int32_t n, const Unlocked& unlocked) {
    ++done_;
    const std::int32_t end = simulation_.unlocks_begin_[n + 1];
    for (std::int32_t u = simulation_.unlocks_begin_[n]; u < end; ++u) {
      const std::int32_t later = simulation_.unlocks_[u];
      if (--tasks_[later].waits == 0) unlocked(later);
    }
    tasks_[n].waits = -1;
  }

  // Once per rank, in their order.
  const std::vector<std::int32_t>* next_starters(std::int32_t rank, bool, std::int32_t) {
    if (rank < started_) return nullptr;
    ++started_;
    starters_.clear();
    for (std::int32_t n = simulation_.begin_[rank]; n < simulation_.begin_[rank + 1]; ++n)
      if (simulation_.tasks_[n].waits == 0) starters_.push_back(n);
    return &starters_;
  }

  void check_end() const {
    if (done_ == tasks_.size()) return;
    std::int32_t rank = 0, n = 0;
    while (tasks_[n].waits < 0) ++n;
    while (simulation_.begin_[rank + 1] <= n) ++rank;
    const Task& task = tasks_[n];
    throw_deadlock(rank, n - simulation_.begin_[rank],
                   {task.verb, task.peer, task.first, task.last, -1});
  }

 private:
  const Simulation& simulation_;
  std::vector<Task> tasks_;
  std::size_t done_ = 0;
  std::int32_t started_ = 0;
  std::vector<std::int32_t> starters_;
};

// Without a link. Ties go by which was found first.
class PacedSteps : public PreparedSteps {
 public:
  static constexpr bool paced = true;

  PacedSteps(const Simulation& simulation, const Pace& pace)
      : PreparedSteps(simulation), pace_(pace) {}

  Cost cost(double units) const {
    return {pace_.port_s, pace_.unit_s * units, pace_.flight_s, 0, 0};
  }
  double sum_s(double units) const { return pace_.sum_unit_s * units; }

 private:
  const Pace& pace_;
};

Outcome Simulation::run(std::uint64_t message_bytes, const Link& link,
                        const std::vector<double>& arrivals_s, bool with_uses) const {
  check(link);
  check_arrivals(arrivals_s, ranks_);
  const RunClock clock(arrivals_s);
  Network network;
  network.models.push_back(link);
  Accounting accounting;
  accounting.uses = with_uses;
  PreparedSteps steps(*this);
  Account account =
      Ports<PreparedSteps>(steps, message_bytes, network, clock.arrivals_s, accounting)
          .run_in_order_of_time();
  clock.put_back(account);
  return std::move(account.outcome);
}

std::vector<double> Simulation::finish_s(int units, const Pace& pace,
                                         const std::vector<double>& arrivals_s,
                                         double limit_s) const {
  check_arrivals(arrivals_s, ranks_);
  Network network;
  network.models.emplace_back();
  Accounting accounting;
  accounting.limit_s = limit_s;
  PacedSteps steps(*this, pace);
  return Ports<PacedSteps>(steps, static_cast<std::uint64_t>(units), network, arrivals_s,
                           accounting)
      .run_in_order_of_time()
      .outcome.finish_s;
}

Outcome simulate(const Schedule& schedule, std::uint64_t message_bytes, const Link& link,
                 const std::vector<double>& arrivals_s) {
  return Simulation(schedule).run(message_bytes, link, arrivals_s);
}

}  // namespace patallreduce::pricing
