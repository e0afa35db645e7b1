// A rank's progress monitor: its own thread, its own small connections, never Python's lock.
//
// It tells the leader (rank 0) how far this rank is, keeps this rank's offset to the leader's clock
// fresh, and hands on the plans that come back: from the leader down a tree. What it would
// tell of an iteration whose plan has come travels with the iteration's last report.
// If it dies, training goes on: the leader's engine then ends the plans for everybody, and a rank
// that hears no plan takes its schedules from the other ranks' announcements.
#pragma once

#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "executor/driver.h"
#include "monitor/catch_up.h"
#include "monitor/clock_offset.h"
#include "monitor/host.h"
#include "monitor/leader.h"
#include "monitor/link_use.h"
#include "monitor/records.h"
#include "transport/transport.h"

namespace patallreduce::monitor {

using executor::Driven;
using executor::Driver;
using transport::Transport;

// To whom a rank hands a plan on, from rank 0: to no more than 16 others.
std::vector<int> plan_children(int rank, int ranks);

struct MonitorOptions {
  double clock_skew_s = 0;  // added to every reading of this rank's clock: for tests
  // False, on the leader: there are no plans any more, and nobody is to follow this one.
  std::function<bool(std::shared_ptr<const Plan>)> planned;
  // Where ranks listen to those that send them data, by rank; empty: how wide ports are is not
  // watched.
  std::vector<std::set<transport::End>> ends;
  std::function<void(const std::string& why)> ended;  // on the leader: there will be no more plans
};

class Monitor final : private Driven {
 public:
  Monitor(std::shared_ptr<Transport> transport, MonitorOptions options);
  ~Monitor() override;
  Monitor(const Monitor&) = delete;

  void start() { driver_.start_thread(); }
  // Never waits; from any thread; after the end it is ignored. Times as now_s().
  void report(Report report);
  // On the leader: how plans are chosen. Until then they leave every call its own schedule.
  void set_chooser(Leader::Chooser choose, double patience_s_per_byte, bool guarded = true);

  double offset_s() const;  // from this rank's clock to the leader's
  // Of one loop, no more than so many, the newest; oldest first.
  std::vector<IterationRecord> records(std::int64_t loop, std::size_t newest) const;
  // On the leader: as of Leader.
  std::optional<Guard> guard(std::int64_t loop) const;
  std::optional<std::string> failure() const;
  // Ends it as an error inside would.
  void fail(const std::string& why);
  // Idempotent.
  void close(double timeout_s);

 private:
  bool turn() override;
  double rest_s(double idle_s) override;
  bool pending() const override { return false; }

  bool exchange();
  bool drain();
  void end(const std::string& why);
  std::optional<Plan> overdue();
  void take(Report report);
  void tell(Report report);
  void handle(int from, const std::string& bytes);
  void handle(int from, const Report& report);
  void handle(int from, const Ping& ping);
  void handle(int from, const Pong& pong);
  void handle(int from, const Plan& plan);
  void publish(Plan plan);
  bool no_plan_waits_for(const Report& report) const;
  void send_later();
  double clock_s() const;  // the leader's, as far as this rank knows it
  double own_clock_s() const;

  const int rank_;
  const int ranks_;
  MonitorOptions options_;
  std::shared_ptr<Transport> transport_;
  double next_ping_s_ = 0;
  int pings_ = 0;
  HostUse host_use_;
  double next_host_use_s_ = 0;
  LinkUse link_use_;
  std::string later_;  // reports, encoded, that travel with the next one a plan waits for

  mutable std::mutex mutex_;  // guards these
  std::deque<Report> inbox_;
  std::map<std::int64_t, std::int64_t> planned_;  // by loop: the newest iteration with a plan
  ClockOffset offset_;
  std::optional<std::string> failure_;
  std::optional<std::string> told_to_fail_;

  mutable std::mutex records_mutex_;  // guards these; held while a plan is decided
  Leader leader_;
  Records records_;

  bool closed_ = false;
  CatchUp catch_up_;
  Driver driver_;  // last: its thread uses what is above
};

}  // namespace patallreduce::monitor
