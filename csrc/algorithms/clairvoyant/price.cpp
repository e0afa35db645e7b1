#include "algorithms/clairvoyant/price.h"

#include <algorithm>
#include <cstdint>

#include "schedule/messages.h"
#include "schedule/order.h"

namespace patallreduce::algorithms {

using schedule::match;
using schedule::Messages;
using schedule::Order;
using schedule::order_of;
using schedule::Schedule;
using schedule::Step;
using schedule::Steps;
using schedule::Verb;

namespace {

constexpr double port_share = 0.25;

class PricedRun {
 public:
  PricedRun(const Schedule& schedule, const Pace& pace, double limit_s)
      : schedule_(schedule),
        messages_(match(schedule)),
        arrivals_s_(pace.arrivals_s),
        port_s_(port_share * pace.latency_s),
        flight_s_((1 - port_share) * pace.latency_s),
        unit_s_(pace.whole_s / pace.units),
        sum_unit_s_(pace.sum_s / pace.units),
        limit_s_(limit_s),
        units_(pace.units),
        ports_(schedule.problem.ranks),
        tasks_(messages_.partner.size()) {
    for (int rank = 0; rank < schedule.problem.ranks; ++rank) add_rank(rank);
  }

  Finish run() {
    const int ranks = schedule_.problem.ranks;
    now_s_ = *std::min_element(arrivals_s_.begin(), arrivals_s_.end());
    const double first_s = now_s_;
    for (std::int32_t rank = 0; rank < ranks; ++rank) {
      ports_[rank].finish_s = arrivals_s_[rank];
      push(arrivals_s_[rank], What::arrives, rank);
    }
    for (std::int32_t n = 0; n < std::int32_t(tasks_.size()); ++n)
      if (tasks_[n].waits == 0) ready(n);
    while (!events_.empty()) {
      std::pop_heap(events_.begin(), events_.end(), Later{});
      const Event event = events_.back();
      events_.pop_back();
      now_s_ = event.at_s;
      if (now_s_ > limit_s_ + first_s) return {};
      happen(event);
    }
    Finish finish{0, 0};
    for (std::int32_t rank = 0; rank < ranks; ++rank) {
      finish.last_s = std::max(finish.last_s, ports_[rank].finish_s - first_s);
      finish.elapsed_s += (ports_[rank].finish_s - arrivals_s_[rank]) / ranks;
    }
    return finish;
  }

 private:
  enum class What : std::uint32_t { arrives, sent, landed, summed };

  struct Event {
    double at_s;
    std::uint32_t number;
    What what;
    std::int32_t subject;
  };
  struct Later {
    bool operator()(const Event& a, const Event& b) const {
      return a.at_s != b.at_s ? a.at_s > b.at_s : a.number > b.number;
    }
  };

  struct Task {
    std::int32_t rank, waits;
    bool sends, needs_arrival, landed;
  };

  struct Port {
    double receives_until_s = -HUGE_VAL, sums_until_s = -HUGE_VAL, finish_s = 0;
    std::size_t begin = 0;  // of its tasks
    Order order;
    std::vector<std::int32_t> queue;  // ready sends, from `next` on
    std::size_t next = 0;
    std::vector<std::int32_t> before_arrival;
    bool sending = false, arrived = false;
  };

  // What waits for the arrival, as the executor has it: own data leaving, sums, results.
  void add_rank(std::int32_t rank) {
    const Steps& steps = schedule_.steps[rank];
    Port& port = ports_[rank];
    port.begin = messages_.begin[rank];
    port.order = order_of(steps, schedule_.problem.segments);
    std::vector<char> written(schedule_.problem.segments, 0);
    for (std::size_t i = 0; i < steps.size(); ++i) {
      const Step& step = steps[i];
      Task& task = tasks_[port.begin + i];
      task = {rank, port.order.waits[i], step.verb == Verb::send, step.verb != Verb::send, false};
      for (std::int32_t s = step.first; s < step.last; ++s) {
        if (task.sends) {
          task.needs_arrival |= !written[s];
        } else {
          written[s] = 1;
        }
      }
    }
  }

  const Step& step_of(std::int32_t n) const {
    const Task& task = tasks_[n];
    return schedule_.steps[task.rank][n - ports_[task.rank].begin];
  }

  double units(const Step& step) const {
    const auto unit = [this](std::int64_t segment) {
      return segment * units_ / schedule_.problem.segments;
    };
    return static_cast<double>(unit(step.last) - unit(step.first));
  }

  void push(double at_s, What what, std::int32_t subject) {
    events_.push_back({at_s, found_++, what, subject});
    std::push_heap(events_.begin(), events_.end(), Later{});
  }

  void happen(const Event& event) {
    if (event.what == What::arrives) {
      Port& port = ports_[event.subject];
      port.arrived = true;
      std::vector<std::int32_t> waiting;
      waiting.swap(port.before_arrival);
      std::sort(waiting.begin(), waiting.end());  // all are ready now: program order
      for (const std::int32_t n : waiting) ready(n);
    } else if (event.what == What::sent) {
      const std::int32_t rank = tasks_[event.subject].rank;
      ports_[rank].sending = false;
      complete(event.subject);
      send_next(rank);
    } else if (event.what == What::summed) {
      done(event.subject);
    } else {
      tasks_[event.subject].landed = true;
      if (tasks_[event.subject].waits == 0) ready(event.subject);
    }
  }

  // The earlier steps of its rank are done.
  void ready(std::int32_t n) {
    const Task& task = tasks_[n];
    if (!task.sends && !task.landed) return;
    Port& port = ports_[task.rank];
    if (task.needs_arrival && !port.arrived) {
      port.before_arrival.push_back(n);
    } else if (task.sends) {
      port.queue.push_back(n);
      send_next(task.rank);
    } else if (step_of(n).verb == Verb::recv || sum_unit_s_ == 0) {
      done(n);
    } else {
      port.sums_until_s = std::max(now_s_, port.sums_until_s) + sum_unit_s_ * units(step_of(n));
      push(port.sums_until_s, What::summed, n);
    }
  }

  // A receive.
  void done(std::int32_t n) {
    ports_[tasks_[n].rank].finish_s = now_s_;
    complete(n);
  }

  void send_next(std::int32_t rank) {
    Port& port = ports_[rank];
    if (port.sending || port.next == port.queue.size()) return;
    const std::int32_t n = port.queue[port.next++];
    const Step& step = step_of(n);
    double& receives_until_s = ports_[step.peer].receives_until_s;
    const double begin_s = std::max(now_s_, receives_until_s);
    receives_until_s = begin_s + port_s_ + unit_s_ * units(step);
    port.sending = true;
    push(receives_until_s, What::sent, n);
    push(receives_until_s + flight_s_, What::landed, std::int32_t(messages_.partner[n]));
  }

  void complete(std::int32_t n) {
    const Port& port = ports_[tasks_[n].rank];
    const Order& order = port.order;
    const std::size_t i = n - port.begin;
    for (std::int32_t u = order.unlocks_begin[i]; u < order.unlocks_begin[i + 1]; ++u) {
      const auto later = static_cast<std::int32_t>(port.begin + order.unlocks[u]);
      if (--tasks_[later].waits == 0) ready(later);
    }
  }

  const Schedule& schedule_;
  const Messages messages_;
  const std::vector<double>& arrivals_s_;
  const double port_s_, flight_s_, unit_s_, sum_unit_s_, limit_s_;
  const int units_;
  double now_s_ = 0;
  std::uint32_t found_ = 0;
  std::vector<Event> events_;  // a heap
  std::vector<Port> ports_;
  std::vector<Task> tasks_;
};

}  // namespace

Finish finish_of(const Schedule& schedule, const Pace& pace, double limit_s) {
  return PricedRun(schedule, pace, limit_s).run();
}

}  // namespace patallreduce::algorithms
