// Networks of any model, and schedules priced on them without being stored.
#include "pricing/network.h"

#include <pybind11/stl.h>

#include "algorithms/generated.h"
#include "bindings/bindings.h"
#include "bindings/link.h"
#include "errors.h"
#include "pricing/generated.h"

namespace patallreduce::bindings {

using algorithms::find_algorithm;
using algorithms::generated;
using pricing::Account;
using pricing::Accounting;
using pricing::Link;
using pricing::LogGP;
using pricing::Network;
using pricing::PathStep;
using pricing::PLogP;
using pricing::PortUse;
using pricing::simulate_generated;
using pricing::SizeTable;
using schedule::Problem;
using schedule::Schedule;
using schedule::StoredSteps;

using namespace py::literals;

namespace {

// (finish_s, average_elapsed_s, after_last_arrival_s, sends_s, receives_s, works_s, critical_path)
py::tuple fields_of(const Account& account, const std::vector<double>& arrivals_s) {
  std::vector<std::tuple<int, int, double>> path;
  for (const PathStep& step : account.critical_path) {
    path.emplace_back(step.rank, step.step, step.done_s);
  }
  return py::make_tuple(account.outcome.finish_s, account.outcome.average_elapsed_s(arrivals_s),
                        account.outcome.after_last_arrival_s(arrivals_s), account.sends_s,
                        account.receives_s, account.works_s, path);
}

py::tuple simulate_on_network(const Schedule& schedule, std::uint64_t message_bytes,
                              const std::vector<double>& arrivals_s, const Network& network,
                              bool critical_path, bool in_order_of_time) {
  Account account;
  {
    py::gil_scoped_release release;
    PATR_CHECK(schedule.steps.size() == std::size_t(schedule.problem.ranks), ScheduleError,
               "expected the steps of ", schedule.problem.ranks, " ranks, got ",
               schedule.steps.size());
    account = simulate_generated(StoredSteps(schedule), message_bytes, network, arrivals_s,
                                 {critical_path, in_order_of_time});
  }
  return fields_of(account, arrivals_s);
}

// (rank, step, begin_s, end_s) of every message.
std::vector<std::tuple<int, int, double, double>> simulate_ports(
    const Schedule& schedule, std::uint64_t message_bytes, const std::vector<double>& arrivals_s,
    const Network& network) {
  Accounting accounting;
  accounting.uses = true;
  const Account account =
      simulate_generated(StoredSteps(schedule), message_bytes, network, arrivals_s, accounting);
  std::vector<std::tuple<int, int, double, double>> uses;
  for (const PortUse& use : account.outcome.uses)
    uses.emplace_back(use.rank, use.send, use.begin_s, use.end_s);
  return uses;
}

py::tuple simulate_algorithm(const std::string& algorithm, int ranks, int segments,
                             std::vector<double> predicted_s, int root, double segment_time_s,
                             std::uint64_t message_bytes, const std::vector<double>& arrivals_s,
                             const Network& network, bool critical_path, bool in_order_of_time,
                             double latency_s, double sum_s, const std::string& collective) {
  Account account;
  {
    py::gil_scoped_release release;
    const Problem problem{ranks,     segments, std::move(predicted_s), segment_time_s, root,
                          latency_s, sum_s};
    account =
        simulate_generated(*generated(find_algorithm(algorithm, collective), problem),
                           message_bytes, network, arrivals_s, {critical_path, in_order_of_time});
  }
  return fields_of(account, arrivals_s);
}

}  // namespace

void bind_network(py::module_& m) {
  py::class_<Network>(m, "Network",
                      "What messages cost; filled by patallreduce/pricing/networks.py.")
      .def(py::init<>())
      .def(
          "add_hockney",
          [](Network& network, Link link) { network.models.push_back(std::move(link)); }, "link"_a)
      .def(
          "add_loggp",
          [](Network& network, double latency_s, double overhead_s, double gap_s,
             double gap_per_byte_s, double reduce_bytes_per_s) {
            network.models.push_back(
                LogGP{latency_s, overhead_s, gap_s, gap_per_byte_s, reduce_bytes_per_s});
          },
          "latency_s"_a, "overhead_s"_a, "gap_s"_a, "gap_per_byte_s"_a, "reduce_bytes_per_s"_a)
      .def(
          "add_plogp",
          [](Network& network, double latency_s, SizeTable gap_s, SizeTable send_overhead_s,
             SizeTable receive_overhead_s, double reduce_bytes_per_s) {
            network.models.push_back(PLogP{latency_s, std::move(gap_s), std::move(send_overhead_s),
                                           std::move(receive_overhead_s), reduce_bytes_per_s});
          },
          "latency_s"_a, "gap_s"_a, "send_overhead_s"_a, "receive_overhead_s"_a,
          "reduce_bytes_per_s"_a)
      .def_readwrite("model_of", &Network::model_of)
      .def_readwrite("node_of", &Network::node_of)
      .def_readwrite("within_node", &Network::within_node)
      .def_readwrite("uplink_bytes_per_s", &Network::uplink_bytes_per_s)
      .def_readwrite("burst_bytes", &Network::burst_bytes)
      .def_readwrite("call_s", &Network::call_s)
      .def_readwrite("shared_ports", &Network::shared_ports)
      .def_readwrite("posted_before_arrival", &Network::posted_before_arrival)
      .def("check", [](const Network& network, int ranks) { check(network, ranks); }, "ranks"_a);
  m.def("simulate_on_network", &simulate_on_network, "schedule"_a, "message_bytes"_a,
        "arrivals_s"_a, "network"_a, "critical_path"_a = false, "in_order_of_time"_a = false,
        "(finish_s, average_elapsed_s, after_last_arrival_s, sends_s, receives_s, works_s, "
        "critical_path of (rank, step, done_s)). Raises ScheduleError for arrivals or a network "
        "that make no sense, for messages that do not match, and for a deadlock.");
  m.def("simulate_ports", &simulate_ports, "schedule"_a, "message_bytes"_a, "arrivals_s"_a,
        "network"_a,
        "(rank, step, begin_s, end_s) of every message, as simulate_on_network() saw it: when it "
        "began to leave, and when its sender's port had let it through. Raises what that does.");
  m.def("simulate_algorithm", &simulate_algorithm, "algorithm"_a, "ranks"_a, "segments"_a,
        "predicted_s"_a, "root"_a, "segment_time_s"_a, "message_bytes"_a, "arrivals_s"_a,
        "network"_a, "critical_path"_a = false, "in_order_of_time"_a = false, "latency_s"_a = 0.0,
        "sum_s"_a = 0.0, "collective"_a = "",
        "As simulate_on_network(), of a schedule that is made while it runs.");
}

}  // namespace patallreduce::bindings
