// One run of the clock: a queue of events, first by time, then by what they are, then in the order
// they were found, so equal input gives equal output; and the same as pricing/streamed.h gives,
// which may find those of one rank before those of another.
//
// A rank's ready sends leave in the order in which they became ready, ties in program order. The
// first of them takes its receiver's port when that is next free, in the order of asking.
#include <algorithm>
#include <cmath>

#include "errors.h"
#include "pricing/simulator.h"

namespace patallreduce::pricing {

using schedule::Verb;

namespace {

enum class What : std::uint32_t { arrives, sent, landed, summed };

struct Event {
  double at_s;
  std::uint32_t number;  // in the order they were found
  What what;
  std::int32_t subject;  // a rank for `arrives`, otherwise a task
};

struct Later {
  bool operator()(const Event& a, const Event& b) const {
    if (a.at_s != b.at_s) return a.at_s > b.at_s;
    return a.what != b.what ? a.what > b.what : a.number > b.number;
  }
};

struct ReadySend {
  double since_s;
  std::int32_t task;
};

struct Port {
  double receives_until_s = -HUGE_VAL;
  double sums_until_s = -HUGE_VAL;
  bool sending = false;
  bool arrived = false;
  std::vector<ReadySend> ready;  // from `next` on
  std::size_t next = 0;
  std::vector<std::int32_t> before_arrival;  // ready, but for the arrival
};

}  // namespace

class SimulatedRun {
 public:
  SimulatedRun(const Simulation& simulation, std::uint64_t message_bytes, const Link& link,
               const std::vector<double>& arrivals_s, bool with_uses)
      : simulation_(simulation),
        link_(link),
        arrivals_s_(arrivals_s),
        message_bytes_(message_bytes),
        with_uses_(with_uses),
        ports_(simulation.ranks_),
        left_(simulation.needed_),
        finish_s_(simulation.ranks_) {
    const std::size_t count = simulation.tasks_.size() - 1;
    waits_.reserve(count);
    for (std::size_t n = 0; n < count; ++n) waits_.push_back(simulation.tasks_[n].waits);
    landed_.assign(count, 0);
    const double per_segment = static_cast<double>(message_bytes) / simulation.segments_;
    equal_segments_ = message_bytes % static_cast<std::uint64_t>(simulation.segments_) == 0;
    if (equal_segments_) segment_transfer_s_ = link.transfer_s(per_segment);
    segment_bytes_ = per_segment;
  }

  Outcome run() {
    for (int rank = 0; rank < simulation_.ranks_; ++rank) {
      push(arrivals_s_.empty() ? 0 : arrivals_s_[rank], What::arrives, rank);
    }
    // Before any arrival nothing can be sent that the rank did not receive.
    now_s_ = events_.front().at_s;
    for (const Event& event : events_) now_s_ = std::min(now_s_, event.at_s);
    for (const std::int32_t task : simulation_.starters_) become_ready(task);
    while (!events_.empty()) {
      std::pop_heap(events_.begin(), events_.end(), Later{});
      const Event event = events_.back();
      events_.pop_back();
      now_s_ = event.at_s;
      happen(event);
    }
    return {std::move(finish_s_), std::move(uses_)};
  }

 private:
  using Task = Simulation::Task;

  void push(double at_s, What what, std::int32_t subject) {
    events_.push_back({at_s, found_++, what, subject});
    std::push_heap(events_.begin(), events_.end(), Later{});
  }

  void happen(const Event& event) {
    switch (event.what) {
      case What::arrives:
        return arrive(event.subject);
      case What::sent: {
        const std::int32_t rank = simulation_.tasks_[event.subject].rank;
        ports_[rank].sending = false;
        complete(event.subject);
        return send_next(rank);
      }
      case What::landed:
        landed_[event.subject] = 1;
        if (waits_[event.subject] == 0) take(event.subject);
        return;
      case What::summed:
        return complete(event.subject);
    }
  }

  void arrive(std::int32_t rank) {
    Port& port = ports_[rank];
    port.arrived = true;
    if (left_[rank] == 0) finish_s_[rank] = now_s_;
    std::vector<std::int32_t> waiting;
    waiting.swap(port.before_arrival);
    std::sort(waiting.begin(), waiting.end());  // all are ready now: program order
    for (const std::int32_t task : waiting) become_ready(task);
  }

  // Its earlier steps are done, at now_s_.
  void become_ready(std::int32_t n) {
    const Task& task = simulation_.tasks_[n];
    if (task.verb != Verb::send) {
      if (landed_[n]) take(n);
      return;
    }
    Port& port = ports_[task.rank];
    if (task.needs_arrival && !port.arrived) {
      port.before_arrival.push_back(n);
      return;
    }
    port.ready.push_back({now_s_, n});
    for (std::size_t i = port.ready.size() - 1;
         i > port.next && port.ready[i - 1].since_s == now_s_ && port.ready[i - 1].task > n; --i) {
      std::swap(port.ready[i - 1], port.ready[i]);
    }
    send_next(task.rank);
  }

  void send_next(std::int32_t rank) {
    Port& port = ports_[rank];
    if (port.sending || port.next == port.ready.size()) return;
    const std::int32_t n = port.ready[port.next++].task;
    const Task& task = simulation_.tasks_[n];
    port.sending = true;
    if (is_empty(task)) {  // the executor leaves it out
      push(now_s_, What::sent, n);
      push(now_s_, What::landed, task.partner);
      return;
    }
    double& receives_until_s = ports_[task.peer].receives_until_s;
    const double begin_s = std::max(now_s_, receives_until_s);
    const double until_s = begin_s + link_.port_share * link_.latency_s + transfer_s(task);
    if (with_uses_) uses_.push_back({n, begin_s, until_s});
    receives_until_s = until_s;
    push(until_s, What::sent, n);
    push(until_s + (1 - link_.port_share) * link_.latency_s, What::landed, task.partner);
  }

  // A message is here and its receive's turn has come.
  void take(std::int32_t n) {
    const Task& task = simulation_.tasks_[n];
    Port& port = ports_[task.rank];
    if (task.needs_arrival && !port.arrived) {
      port.before_arrival.push_back(n);
    } else if (task.verb == Verb::recv) {
      complete(n);
    } else {
      port.sums_until_s =
          std::max(now_s_, port.sums_until_s) + bytes_of(task) / link_.reduce_bytes_per_s;
      push(port.sums_until_s, What::summed, n);
    }
  }

  void complete(std::int32_t n) {
    const Task& task = simulation_.tasks_[n];
    if (task.needed && --left_[task.rank] == 0) finish_s_[task.rank] = now_s_;
    const std::int32_t end = simulation_.tasks_[n + 1].unlocks_begin;
    for (std::int32_t u = task.unlocks_begin; u < end; ++u) {
      const std::int32_t later = simulation_.unlocks_[u];
      if (--waits_[later] == 0) become_ready(later);
    }
  }

  // Segments as the executor cuts them, but for its alignment.
  std::uint64_t begin(std::int32_t segment) const {
    return static_cast<std::uint64_t>(static_cast<unsigned __int128>(message_bytes_) *
                                      static_cast<unsigned>(segment) /
                                      static_cast<unsigned>(simulation_.segments_));
  }

  double bytes_of(const Task& task) const {
    if (equal_segments_) return segment_bytes_ * (task.last - task.first);
    return static_cast<double>(begin(task.last) - begin(task.first));
  }

  bool is_empty(const Task& task) const { return message_bytes_ > 0 && bytes_of(task) == 0; }

  double transfer_s(const Task& task) const {
    if (equal_segments_ && task.last - task.first == 1) return segment_transfer_s_;
    return link_.transfer_s(bytes_of(task));
  }

  const Simulation& simulation_;
  const Link& link_;
  const std::vector<double>& arrivals_s_;
  const std::uint64_t message_bytes_;
  const bool with_uses_;
  double segment_bytes_ = 0;
  double segment_transfer_s_ = 0;
  bool equal_segments_ = false;
  double now_s_ = 0;
  std::uint32_t found_ = 0;
  std::vector<Event> events_;  // a heap
  std::vector<Port> ports_;
  std::vector<std::int32_t> waits_;
  std::vector<char> landed_;
  std::vector<std::int32_t> left_;
  std::vector<double> finish_s_;
  std::vector<PortUse> uses_;
};

void check_arrivals(const std::vector<double>& arrivals_s, int ranks) {
  PATR_CHECK(arrivals_s.empty() || arrivals_s.size() == std::size_t(ranks), ScheduleError,
             "expected one arrival per rank (", ranks, "), got ", arrivals_s.size(), " arrivals");
  for (std::size_t rank = 0; rank < arrivals_s.size(); ++rank) {
    PATR_CHECK(std::isfinite(arrivals_s[rank]), ScheduleError, "expected a finite arrival, got ",
               arrivals_s[rank], " s for rank ", rank);
  }
}

RunClock::RunClock(const std::vector<double>& arrivals_s) : zero_s(0), arrivals_s(arrivals_s) {
  if (arrivals_s.empty()) return;
  zero_s = *std::min_element(arrivals_s.begin(), arrivals_s.end());
  for (double& arrival_s : this->arrivals_s) arrival_s -= zero_s;
}

Outcome Simulation::run(std::uint64_t message_bytes, const Link& link,
                        const std::vector<double>& arrivals_s, bool with_uses) {
  check(link);
  check_arrivals(arrivals_s, ranks_);
  const RunClock clock(arrivals_s);
  Outcome outcome = SimulatedRun(*this, message_bytes, link, clock.arrivals_s, with_uses).run();
  for (double& finish_s : outcome.finish_s) finish_s += clock.zero_s;
  for (PortUse& use : outcome.uses) {
    use.begin_s += clock.zero_s;
    use.end_s += clock.zero_s;
  }
  return outcome;
}

}  // namespace patallreduce::pricing
