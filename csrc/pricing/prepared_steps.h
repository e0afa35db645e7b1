// What a run of the clock does with prepared tasks: those of all collectives in a row.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "pricing/ports.h"
#include "pricing/simulation.h"

namespace patallreduce::pricing {

class PreparedSteps {
 public:
  using Task = Simulation::Task;

  static constexpr bool on_networks = false, paced = false, together = true;

  struct Landing {
    std::int32_t from, to, first, last;
    std::int32_t& record;
  };

  explicit PreparedSteps(const std::vector<InFlight>& collectives) {
    for (const InFlight& one : collectives) add(one);
  }

  int ranks() const { return static_cast<int>(ranks_.size()); }
  int ports() const { return parts_.front().simulation->ranks_; }
  std::int32_t port(std::int32_t rank) const { return ranks_[rank].port; }
  std::int32_t collective(std::int32_t rank) const { return ranks_[rank].collective; }
  int pieces(std::int32_t rank) const { return parts_[ranks_[rank].collective].pieces; }
  std::int32_t left(std::int32_t rank) const { return ranks_[rank].left; }  // steps to be done
  Task& at(std::int32_t, std::int32_t n) { return tasks_[n]; }

  // Of messages from the rank to that step's peer.
  std::int32_t channel(std::int32_t rank, std::int32_t n) const {
    return rank * ranks() + tasks_[n].peer;
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
  void finish(std::int32_t rank, std::int32_t n, const Unlocked& unlocked) {
    ++done_;
    --ranks_[rank].left;
    const Part& part = parts_[ranks_[rank].collective];
    const Simulation& simulation = *part.simulation;
    const std::int32_t end = simulation.unlocks_begin_[n - part.first_task + 1];
    for (std::int32_t u = simulation.unlocks_begin_[n - part.first_task]; u < end; ++u) {
      const std::int32_t later = part.first_task + simulation.unlocks_[u];
      if (--tasks_[later].waits == 0) unlocked(later);
    }
    tasks_[n].waits = -1;
  }

  // Once per rank, in their order.
  const std::vector<std::int32_t>* next_starters(std::int32_t rank, bool, std::int32_t) {
    if (rank < started_) return nullptr;
    ++started_;
    starters_.clear();
    for (std::int32_t n = ranks_[rank].first_task; n < end_of(rank); ++n)
      if (tasks_[n].waits == 0) starters_.push_back(n);
    return &starters_;
  }

  void check_end() const {
    if (done_ == tasks_.size()) return;
    std::int32_t rank = 0, n = 0;
    while (tasks_[n].waits < 0) ++n;
    while (end_of(rank) <= n) ++rank;
    const Task& task = tasks_[n];
    throw_deadlock(rank, n - ranks_[rank].first_task,
                   {task.verb, task.peer, task.first, task.last, -1});
  }

 private:
  struct Part {  // one collective's
    const Simulation* simulation;
    std::int32_t first_task;
    int pieces;
  };
  struct Rank {
    std::int32_t port, collective, first_task, left;
  };

  void add(const InFlight& one) {
    const Simulation& simulation = *one.schedule;
    const auto first_task = static_cast<std::int32_t>(tasks_.size());
    const auto first_rank = static_cast<std::int32_t>(ranks_.size());
    const auto collective = static_cast<std::int32_t>(parts_.size());
    parts_.push_back({&simulation, first_task, one.pieces});
    for (std::int32_t place = 0; place < simulation.ranks_; ++place) {
      const std::int32_t port = one.ranks.empty() ? place : one.ranks[std::size_t(place)];
      const std::int32_t begin = simulation.begin_[place];
      ranks_.push_back(
          {port, collective, first_task + begin, simulation.begin_[place + 1] - begin});
    }
    tasks_.insert(tasks_.end(), simulation.tasks_.begin(), simulation.tasks_.end());
    if (first_task == 0) return;
    for (auto task = tasks_.begin() + first_task; task != tasks_.end(); ++task) {
      task->peer += first_rank;
      task->partner += first_task;
    }
  }

  std::int32_t end_of(std::int32_t rank) const {
    return rank + 1 < ranks() ? ranks_[std::size_t(rank) + 1].first_task
                              : static_cast<std::int32_t>(tasks_.size());
  }

  std::vector<Part> parts_;
  std::vector<Rank> ranks_;
  std::vector<Task> tasks_;
  std::size_t done_ = 0;
  std::int32_t started_ = 0;
  std::vector<std::int32_t> starters_;
};

// On ports that messages share.
class SharingSteps : public PreparedSteps {
 public:
  using PreparedSteps::PreparedSteps;
  static constexpr bool on_networks = true;
};

// Without a link. Ties go by which was found first.
class PacedSteps : public PreparedSteps {
 public:
  static constexpr bool paced = true;

  PacedSteps(const Simulation& simulation, const Pace& pace)
      : PreparedSteps({{&simulation, 0, {}, {}}}), pace_(pace) {}

  Cost cost(double units) const {
    return {pace_.port_s, pace_.unit_s * units, pace_.flight_s, 0, 0};
  }
  double sum_s(double units) const { return pace_.sum_unit_s * units; }

 private:
  const Pace& pace_;
};

}  // namespace patallreduce::pricing
