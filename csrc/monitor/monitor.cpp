#include "monitor/monitor.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "clock.h"
#include "errors.h"

namespace patallreduce::monitor {

using transport::Events;
using transport::max_control_bytes;

namespace {

constexpr int leader_rank = 0;
constexpr double ping_interval_s = 1.0;
constexpr double host_use_interval_s = 1.0;
constexpr double first_ping_interval_s = 1e-3;
constexpr double an_hour_s = 3600;
constexpr int first_pings = 8;
// To be told by a rank that was told itself takes a latency and a thread that wakes up, in which
// the first one could have told about so many.
constexpr int fan_out = 16;

}  // namespace

Monitor::Monitor(std::shared_ptr<Transport> transport, MonitorOptions options)
    : rank_(transport->rank()),
      ranks_(transport->ranks()),
      options_(std::move(options)),
      transport_(std::move(transport)),
      link_use_(options_.ends),
      leader_(ranks_),
      records_(ranks_),
      driver_(*this, *transport_, 0, false) {}

Monitor::~Monitor() { close(0); }

void Monitor::report(Report report) {
  bool may_wait;
  {
    std::lock_guard lock(mutex_);
    if (failure_ || driver_.ended()) return;
    may_wait = no_plan_waits_for(report);
    inbox_.push_back(std::move(report));
  }
  if (!may_wait) driver_.wake();  // which costs a rank's processor more than what it says
}

void Monitor::set_chooser(Leader::Chooser choose, double patience_s_per_byte, bool guarded) {
  if (rank_ == leader_rank && choose.catch_up)
    catch_up_.start(choose.catch_up, [this](const std::string& why) { fail(why); });
  std::lock_guard lock(records_mutex_);
  leader_.set_chooser(std::move(choose), patience_s_per_byte, guarded);
}

double Monitor::own_clock_s() const { return now_s() + options_.clock_skew_s; }

double Monitor::clock_s() const { return own_clock_s() + offset_s() - options_.clock_skew_s; }

double Monitor::offset_s() const {
  std::lock_guard lock(mutex_);
  return options_.clock_skew_s + offset_.offset_s();
}

std::vector<IterationRecord> Monitor::records(std::int64_t loop, std::size_t newest) const {
  std::lock_guard lock(records_mutex_);
  return records_.newest(loop, newest);
}

std::optional<Guard> Monitor::guard(std::int64_t loop) const {
  std::lock_guard lock(records_mutex_);
  return leader_.guard(loop);
}

std::optional<std::string> Monitor::failure() const {
  std::lock_guard lock(mutex_);
  return failure_;
}

void Monitor::fail(const std::string& why) {
  {
    std::lock_guard lock(mutex_);
    told_to_fail_ = why;
  }
  driver_.wake();
}

bool Monitor::turn() {
  const bool failed = failure().has_value();
  try {
    return failed ? drain() : exchange();
  } catch (const std::exception& error) {
    if (failed)
      driver_.end();  // the connections are dead, which the others see
    else
      end(error.what());
    return true;
  }
}

void Monitor::end(const std::string& why) {
  std::string failure = concat("rank ", rank_, ": the progress monitor ended: ", why);
  {
    std::lock_guard lock(mutex_);
    failure_ = failure;
    inbox_.clear();
  }
  if (rank_ == leader_rank) options_.ended(failure);
}

// What the others still send to a monitor that ended must not pile up in their memory.
bool Monitor::drain() {
  Events ignored;
  transport_->progress(ignored);
  return !ignored.empty();
}

bool Monitor::exchange() {
  std::deque<Report> reports;
  {
    std::lock_guard lock(mutex_);
    if (told_to_fail_) throw TransportError(*told_to_fail_, rank_);
    // Without an offset a report's times would mean nothing to the leader: they wait.
    if (rank_ == leader_rank || offset_.samples() > 0) std::swap(reports, inbox_);
  }
  for (Report& report : reports) take(std::move(report));
  const double now = now_s();
  if (rank_ != leader_rank && now >= next_ping_s_) {
    transport_->control(leader_rank, encode(Ping{own_clock_s()}));
    // More and more seldom while none is answered: the leader may be a while in coming.
    const int unanswered = ++pings_ - offset_.samples();
    next_ping_s_ =
        now + (offset_.samples() < first_pings ? std::clamp(unanswered * first_ping_interval_s,
                                                            first_ping_interval_s, ping_interval_s)
                                               : ping_interval_s);
  }
  Events events;
  transport_->progress(events);
  for (const auto& [from, bytes] : events.control) handle(from, bytes);
  while (auto plan = overdue()) publish(std::move(*plan));
  // A lost rank is the engine's to judge; its reports merely stop.
  return !reports.empty() || !events.empty();
}

std::optional<Plan> Monitor::overdue() {
  std::lock_guard lock(records_mutex_);
  return leader_.overdue(own_clock_s(), records_);
}

double Monitor::rest_s(double) {
  if (failure()) return an_hour_s;
  if (rank_ != leader_rank) return std::clamp(next_ping_s_ - now_s(), 0.0, ping_interval_s);
  std::lock_guard lock(records_mutex_);
  return std::clamp(leader_.next_overdue_s() - own_clock_s(), 0.0, an_hour_s);
}

// A report of this rank: on the leader's clock from here on.
void Monitor::take(Report report) {
  const double shift_s = offset_s();
  if (auto* started = std::get_if<Started>(&report)) {
    if (const double now = now_s(); now >= next_host_use_s_) {
      next_host_use_s_ = now + host_use_interval_s;
      if (const auto host = host_use_.sample(now)) tell(HostUsed{started->id, *host});
    }
    if (auto used = link_use_.sample(started->id)) tell(std::move(*used));
    started->at_s += shift_s;
    for (double& finish_s : started->finish_s) finish_s += shift_s;
  } else if (auto* edge = std::get_if<EdgeReached>(&report)) {
    edge->at_s += shift_s;
  } else if (auto* asked = std::get_if<Asked>(&report)) {
    asked->at_s += shift_s;
  } else if (auto* arrived = std::get_if<Arrived>(&report)) {
    for (double& arrival_s : arrived->arrivals_s) arrival_s += shift_s;
  }
  tell(std::move(report));
}

void Monitor::tell(Report report) {
  if (rank_ == leader_rank) {
    handle(rank_, report);
    return;
  }
  {
    std::lock_guard lock(records_mutex_);
    std::visit([&](const auto& r) { records_.take(rank_, r); }, report);
  }
  bool may_wait;
  {
    std::lock_guard lock(mutex_);
    may_wait = no_plan_waits_for(report);
  }
  const std::string bytes = encode(std::move(report));
  if (later_.size() + bytes.size() > max_control_bytes) send_later();
  later_ += bytes;
  if (!may_wait) send_later();
}

void Monitor::send_later() {
  if (!later_.empty()) transport_->control(leader_rank, later_);
  later_.clear();
}

// A message costs the leader more than what it says. Under mutex_.
bool Monitor::no_plan_waits_for(const Report& report) const {
  if (std::holds_alternative<HostUsed>(report) || std::holds_alternative<LinkUsed>(report))
    return true;
  if (!std::holds_alternative<EdgeReached>(report) && !std::holds_alternative<Asked>(report))
    return false;
  const IterationId& id = id_of(report);
  const auto planned = planned_.find(id.loop);
  return planned != planned_.end() && id.iteration <= planned->second;
}

void Monitor::handle(int from, const std::string& bytes) {
  for (const MonitorMessage& message : decode_monitor_messages(bytes, ranks_))
    std::visit([&](const auto& m) { handle(from, m); }, message);
}

void Monitor::handle(int from, const Report& report) {
  if (rank_ != leader_rank) return;
  std::optional<Plan> plan;
  {
    std::lock_guard lock(records_mutex_);
    plan = leader_.take(from, report, own_clock_s(), records_);
  }
  if (plan) publish(std::move(*plan));
}

void Monitor::handle(int from, const Ping& ping) {
  transport_->control(from, encode(Pong{ping.sent_s, own_clock_s()}));
}

void Monitor::handle(int from, const Pong& pong) {
  if (from != leader_rank) return;
  std::lock_guard lock(mutex_);
  offset_.sample(pong.sent_s, pong.leader_s, own_clock_s());
}

void Monitor::handle(int from, const Plan& plan) {
  const std::vector<int> children = plan_children(from, ranks_);
  if (std::find(children.begin(), children.end(), rank_) == children.end()) return;
  publish(plan);
}

std::vector<int> plan_children(int rank, int ranks) {
  std::vector<int> children;
  for (int child = fan_out * rank + 1; child <= fan_out * (rank + 1) && child < ranks; ++child)
    children.push_back(child);
  return children;
}

// The own engine first: should the leader fail while telling others, its engine knows this plan as
// one that some may follow.
void Monitor::publish(Plan plan) {
  {
    std::lock_guard lock(mutex_);
    if (planned_.size() >= most_loops) planned_.clear();
    planned_[plan.loop] = plan.iteration;
  }
  std::string bytes = encode(plan);
  if (bytes.size() > max_control_bytes) {  // thousands of ranks and dozens of buckets
    plan.buckets.clear();
    bytes = encode(plan);
  }
  {
    std::lock_guard lock(records_mutex_);
    records_.take(plan);
  }
  if (!options_.planned(std::make_shared<const Plan>(std::move(plan)))) return;
  for (const int child : plan_children(rank_, ranks_)) transport_->control(child, bytes);
  if (rank_ == leader_rank) catch_up_.wake();
}

void Monitor::close(double timeout_s) {
  if (closed_) return;
  closed_ = true;
  catch_up_.end();
  driver_.join();
  transport_->close(timeout_s);
}

}  // namespace patallreduce::monitor
