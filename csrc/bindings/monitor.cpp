#include "monitor/monitor.h"

#include <pybind11/stl.h>

#include "bindings/bindings.h"
#include "bindings/owned.h"
#include "bindings/records.h"
#include "clock.h"
#include "executor/engine.h"

namespace patallreduce::bindings {

using executor::Call;
using executor::Engine;
using monitor::Arrived;
using monitor::Asked;
using monitor::BucketSize;
using monitor::ClockOffset;
using monitor::EdgeReached;
using monitor::Guard;
using monitor::HostUse;
using monitor::IterationRecord;
using monitor::Leader;
using monitor::LinkUsed;
using monitor::Monitor;
using monitor::MonitorOptions;
using monitor::plan_children;
using monitor::Records;
using monitor::Report;
using monitor::Started;
using monitor::Way;
using reduction::size_of;
using schedule::Plan;
using schedule::PlannedBucket;
using selection::IterationForecast;
using selection::Planner;
using transport::Transport;

using namespace pybind11::literals;

namespace {

std::shared_ptr<Monitor> make_monitor(std::shared_ptr<Transport> transport,
                                      std::shared_ptr<Engine> engine, double clock_skew_s) {
  MonitorOptions options;
  options.clock_skew_s = clock_skew_s;
  options.planned = [engine](std::shared_ptr<const Plan> plan) {
    return engine->plan(std::move(plan));
  };
  options.ends = engine->ends();
  options.ended = [engine](const std::string& why) { engine->end_plans(why); };
  return make_owned<Monitor>(std::move(transport), std::move(options));
}

std::vector<BucketSize> sizes_of(const std::vector<Call>& calls) {
  std::vector<BucketSize> sizes;
  for (const Call& call : calls)
    sizes.push_back({call.count, static_cast<std::uint32_t>(size_of(call.dtype)),
                     call.key.algorithm, call.key.segments});
  return sizes;
}

Leader::Chooser chooser_of(std::shared_ptr<Planner> planner) {
  return {[planner](const IterationForecast& forecast, bool at_once) {
            return at_once ? planner->plan_at_once(forecast) : planner->plan(forecast);
          },
          [planner](const std::vector<schedule::ScheduleKey>& keys,
                    const IterationForecast& arrived) { return planner->finish_s(keys, arrived); },
          planner->ports(),
          [planner](const std::vector<double>& ports) { planner->set_ports(ports); },
          planner->latency_s(),
          [planner](bool confirms) { return planner->catch_up(confirms); }};
}

// A leader without a monitor around it: benchmarks/leader.py and tests replay reports on it.
struct Replay {
  Leader leader;
  Records records;

  Replay(int ranks, std::shared_ptr<Planner> planner, double patience_s_per_byte)
      : leader(ranks), records(ranks) {
    if (planner) leader.set_chooser(chooser_of(std::move(planner)), patience_s_per_byte);
  }
  std::optional<Plan> take(int rank, const Report& report, double now_s) {
    auto plan = leader.take(rank, report, now_s, records);
    leader.catch_up(true);
    return plan;
  }
  std::optional<Plan> overdue(double now_s) {
    auto plan = leader.overdue(now_s, records);
    leader.catch_up(true);
    return plan;
  }
};

py::object paces_of(const std::optional<Guard>& guard) {
  if (!guard) return py::none();
  const auto told = [&](Way way) {
    const Guard::Pace& pace = guard->pace(way);
    return py::dict("iterations"_a = pace.iterations, "iteration_s"_a = pace.iteration_s,
                    "overhead_s"_a = pace.overhead_s);
  };
  return py::dict("planned"_a = told(Way::planned), "plain"_a = told(Way::plain));
}

using Sizes = std::vector<std::pair<std::uint64_t, std::uint32_t>>;

std::vector<BucketSize> plain_sizes(const Sizes& sizes, const std::string& algorithm) {
  std::vector<BucketSize> out;
  for (const auto& [elements, element_bytes] : sizes)
    out.push_back({elements, element_bytes, algorithm, 0});
  return out;
}

py::list buckets_of(const Plan& plan) {
  py::list out;
  for (const PlannedBucket& bucket : plan.buckets)
    out.append(py::make_tuple(bucket.elements, bucket.element_bytes, bucket.key.algorithm,
                              bucket.key.segments, bucket.key.arrivals_s));
  return out;
}

void bind_parts(py::module_& m) {
  py::class_<Plan>(m, "Plan", "The leader's decision for one iteration.")
      .def_readonly("loop", &Plan::loop)
      .def_readonly("iteration", &Plan::iteration)
      .def_property_readonly("buckets", &buckets_of,
                             "[(elements, element_bytes, algorithm, segments, arrivals_s)]")
      .def_property_readonly("message_bytes",
                             [](const Plan& plan) { return monitor::encode(plan).size(); });
  py::class_<Replay>(m, "Leader", "Turns reports into plans; without thread, clock and messages.")
      .def(py::init<int, std::shared_ptr<Planner>, double>(), "ranks"_a, "planner"_a = nullptr,
           "patience_s_per_byte"_a = 0.0)
      .def("overdue", &Replay::overdue, "now_s"_a)
      .def(
          "pace",
          [](const Replay& replay, std::int64_t loop) {
            return paces_of(replay.leader.guard(loop));
          },
          "loop"_a, "As of Monitor.")
      .def(
          "started",
          [](Replay& replay, int rank, std::int64_t loop, std::int64_t iteration, double at_s,
             std::vector<double> finish_s, double now_s) {
            return replay.take(rank, Started{{loop, iteration}, at_s, std::move(finish_s)}, now_s);
          },
          "rank"_a, "loop"_a, "iteration"_a, "at_s"_a, "finish_s"_a, "now_s"_a)
      .def(
          "edge",
          [](Replay& replay, int rank, std::int64_t loop, std::int64_t iteration, double fraction,
             double at_s, double now_s) {
            return replay.take(rank, EdgeReached{{loop, iteration}, fraction, at_s}, now_s);
          },
          "rank"_a, "loop"_a, "iteration"_a, "fraction"_a, "at_s"_a, "now_s"_a)
      .def(
          "asked",
          [](Replay& replay, int rank, std::int64_t loop, std::int64_t iteration, double at_s,
             double now_s) { return replay.take(rank, Asked{{loop, iteration}, at_s}, now_s); },
          "rank"_a, "loop"_a, "iteration"_a, "at_s"_a, "now_s"_a)
      .def(
          "arrived",
          [](Replay& replay, int rank, std::int64_t loop, std::int64_t iteration,
             std::vector<double> arrivals_s, const Sizes& sizes, double now_s,
             const std::string& algorithm) {
            return replay.take(
                rank,
                Arrived{{loop, iteration}, std::move(arrivals_s), plain_sizes(sizes, algorithm)},
                now_s);
          },
          "rank"_a, "loop"_a, "iteration"_a, "arrivals_s"_a, "sizes"_a, "now_s"_a,
          "algorithm"_a = "", "algorithm: what runs without a plan.")
      .def(
          "link_used",
          [](Replay& replay, int rank, std::int64_t loop, std::int64_t iteration,
             std::int64_t since, const std::vector<std::tuple<int, double, double>>& flows,
             double now_s) {
            LinkUsed used{{loop, iteration}, since, {}};
            for (const auto& [to, bytes, busy_s] : flows) used.flows.push_back({to, bytes, busy_s});
            return replay.take(rank, std::move(used), now_s);
          },
          "rank"_a, "loop"_a, "iteration"_a, "since"_a, "flows"_a, "now_s"_a,
          "flows: (to, bytes, busy_s).")
      .def("records", [](const Replay& replay) {
        py::list out;
        for (const IterationRecord& record : replay.records.kept()) out.append(as_dict(record));
        return out;
      });
  py::class_<ClockOffset>(m, "ClockOffset", "Of this rank's clock to the leader's.")
      .def(py::init<>())
      .def("sample", &ClockOffset::sample, "sent_s"_a, "answered_s"_a, "received_s"_a)
      .def_property_readonly("samples", &ClockOffset::samples)
      .def_property_readonly("offset_s", &ClockOffset::offset_s)
      .def_property_readonly("error_s", &ClockOffset::error_s);
  py::class_<HostUse>(m, "HostUse", "How busy this rank's host is.")
      .def(py::init<std::string>(), "root"_a = "")
      .def(
          "sample",
          [](HostUse& use, double now_s) -> py::object {
            const auto host = use.sample(now_s);
            if (host) return as_dict(*host);
            return py::none();
          },
          "now_s"_a, "Since the sample before; None the first time.");
  m.def("plan_children", &plan_children, "rank"_a, "ranks"_a,
        "The ranks to which a rank hands a plan on.");
}

}  // namespace

void bind_monitor(py::module_& m) {
  bind_parts(m);
  py::class_<Monitor, std::shared_ptr<Monitor>>(m, "Monitor", "A rank's progress monitor.")
      .def(py::init(&make_monitor), "transport"_a, "engine"_a, "clock_skew_s"_a = 0.0)
      .def("start", &Monitor::start)
      .def(
          "set_planner",
          [](Monitor& monitor, std::shared_ptr<Planner> planner, double patience_s_per_byte,
             bool guarded) {
            monitor.set_chooser(chooser_of(std::move(planner)), patience_s_per_byte, guarded);
          },
          "planner"_a, "patience_s_per_byte"_a, "guarded"_a = true)
      .def(
          "started",
          [](Monitor& monitor, std::int64_t loop, std::int64_t iteration, double at_s,
             std::vector<double> finish_s) {
            monitor.report(Started{{loop, iteration}, at_s, std::move(finish_s)});
          },
          "loop"_a, "iteration"_a, "at_s"_a, "finish_s"_a)
      .def(
          "edge",
          [](Monitor& monitor, std::int64_t loop, std::int64_t iteration, double fraction,
             double at_s) { monitor.report(EdgeReached{{loop, iteration}, fraction, at_s}); },
          "loop"_a, "iteration"_a, "fraction"_a, "at_s"_a)
      .def(
          "asked",
          [](Monitor& monitor, std::int64_t loop, std::int64_t iteration, double at_s) {
            monitor.report(Asked{{loop, iteration}, at_s});
          },
          "loop"_a, "iteration"_a, "at_s"_a)
      .def(
          "arrived",
          [](Monitor& monitor, std::int64_t loop, std::int64_t iteration,
             std::vector<double> arrivals_s, const std::vector<Call>& calls) {
            monitor.report(Arrived{{loop, iteration}, std::move(arrivals_s), sizes_of(calls)});
          },
          "loop"_a, "iteration"_a, "arrivals_s"_a, "calls"_a)
      .def_property_readonly("offset_s", &Monitor::offset_s)
      .def(
          "records",
          [](const Monitor& monitor, std::int64_t loop, std::size_t newest) {
            std::vector<IterationRecord> records;
            {
              py::gil_scoped_release release;
              records = monitor.records(loop, newest);
            }
            py::list out;
            for (const IterationRecord& record : records) out.append(as_dict(record));
            return out;
          },
          "loop"_a, "newest"_a, "Of a loop, no more than so many, the newest; oldest first.")
      .def(
          "pace",
          [](const Monitor& monitor, std::int64_t loop) { return paces_of(monitor.guard(loop)); },
          "loop"_a,
          "Of a loop's iterations with plans and without, on the leader: how many were measured, "
          "mean seconds of an iteration, and of its overhead. None: nothing is known here.")
      .def_property_readonly("failure", &Monitor::failure)
      .def("fail", &Monitor::fail, "why"_a, "For tests: ends as by an error inside.")
      .def("close", &Monitor::close, "timeout_s"_a, py::call_guard<py::gil_scoped_release>());
}

}  // namespace patallreduce::bindings
