// Prices of schedules; the link comes as its fields, from patallreduce/link.py.
#include <pybind11/stl.h>

#include "bindings/bindings.h"
#include "simulator/simulator.h"

namespace patallreduce {

using namespace py::literals;

namespace {

using Transfers = std::vector<std::pair<double, double>>;

py::tuple simulate_on_link(const Schedule& schedule, std::uint64_t message_bytes,
                           const std::vector<double>& arrivals_s, double latency_s,
                           double bytes_per_s, double reduce_bytes_per_s, Transfers transfers_s,
                           double port_share) {
  const Link link{latency_s, bytes_per_s, reduce_bytes_per_s, std::move(transfers_s), port_share};
  Outcome outcome;
  {
    py::gil_scoped_release release;
    outcome = simulate(schedule, message_bytes, link, arrivals_s);
  }
  return py::make_tuple(outcome.finish_s, outcome.average_elapsed_s(arrivals_s),
                        outcome.after_last_arrival_s(arrivals_s));
}

double transfer_s(double message_bytes, double bytes_per_s, Transfers transfers_s) {
  Link link;
  link.bytes_per_s = bytes_per_s;
  link.transfers_s = std::move(transfers_s);
  return link.transfer_s(message_bytes);
}

}  // namespace

void bind_simulation(py::module_& m) {
  m.def("simulate", &simulate_on_link, "schedule"_a, "message_bytes"_a, "arrivals_s"_a,
        "latency_s"_a, "bytes_per_s"_a, "reduce_bytes_per_s"_a, "transfers_s"_a, "port_share"_a,
        "(finish_s, average_elapsed_s, after_last_arrival_s); an empty arrivals_s is all 0. "
        "Raises ScheduleError for arrivals or a link that make no sense, and for a deadlock.");
  m.def("transfer_s", &transfer_s, "message_bytes"_a, "bytes_per_s"_a, "transfers_s"_a,
        "Seconds that a message of so many bytes occupies a port, without latency.");
}

}  // namespace patallreduce
