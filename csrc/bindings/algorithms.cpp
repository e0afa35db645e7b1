// The book of algorithms: what Python asks instead of knowing one by name.
#include <pybind11/functional.h>
#include <pybind11/stl.h>

#include "algorithms/internal_keys.h"
#include "algorithms/registry.h"
#include "bindings/bindings.h"
#include "bindings/link.h"
#include "errors.h"

namespace patallreduce::bindings {

using algorithms::Algorithm;
using algorithms::find_algorithm;
using algorithms::Timed;
using algorithms::Times;
using pricing::Link;
using schedule::Problem;

using namespace py::literals;

namespace {

Problem problem_of(int ranks, int segments, std::vector<double> arrivals_s, int root,
                   double segment_time_s, double latency_s, double sum_s,
                   std::vector<std::int32_t> node_of, std::vector<std::int32_t> ports) {
  return {ranks,     segments, std::move(arrivals_s), segment_time_s,  root,
          latency_s, sum_s,    std::move(node_of),    std::move(ports)};
}

py::dict times(const Algorithm& algorithm, int ranks, int segments, std::uint64_t message_bytes,
               bool together, std::optional<double> segment_time_s, std::function<Link()> link) {
  const Times found = times_of(
      algorithm, {ranks, segments, message_bytes, together, segment_time_s, std::move(link)});
  return py::dict("segment_time_s"_a = found.segment_time_s, "latency_s"_a = found.latency_s,
                  "sum_s"_a = found.sum_s);
}

std::vector<double> estimate(const Algorithm& algorithm, const std::vector<double>& arrivals_s,
                             int segments, double message_bytes, const Link& link) {
  PATR_CHECK(algorithm.pricing.estimate, ScheduleError, "no closed form for algorithm '",
             algorithm.name, "'");
  return algorithm.pricing.estimate(arrivals_s, segments, message_bytes, link);
}

void bind_generators(py::module_& m) {
  m.def(
      "generate",
      [](const std::string& algorithm, int ranks, int segments, std::vector<double> arrivals_s,
         int root, double segment_time_s, double latency_s, double sum_s,
         const std::string& collective, std::vector<std::int32_t> node_of,
         std::vector<std::int32_t> ports) {
        const Problem problem =
            problem_of(ranks, segments, std::move(arrivals_s), root, segment_time_s, latency_s,
                       sum_s, std::move(node_of), std::move(ports));
        py::gil_scoped_release release;
        return generate(find_algorithm(algorithm, collective), problem);
      },
      "algorithm"_a, "ranks"_a, "segments"_a, "arrivals_s"_a = std::vector<double>{}, "root"_a = 0,
      "segment_time_s"_a = 0.0, "latency_s"_a = 0.0, "sum_s"_a = 0.0, "collective"_a = "",
      "node_of"_a = std::vector<std::int32_t>{}, "ports"_a = std::vector<std::int32_t>{},
      "`collective` tells apart those of one name; \"\": the first.");
  m.def(
      "generate_steps",
      [](const std::string& algorithm, int rank, int ranks, int segments,
         std::vector<double> arrivals_s, int root, double segment_time_s, double latency_s,
         double sum_s, const std::string& collective, std::vector<std::int32_t> node_of,
         std::vector<std::int32_t> ports) {
        const Problem problem =
            problem_of(ranks, segments, std::move(arrivals_s), root, segment_time_s, latency_s,
                       sum_s, std::move(node_of), std::move(ports));
        py::gil_scoped_release release;
        return generate_steps(find_algorithm(algorithm, collective), problem, rank);
      },
      "algorithm"_a, "rank"_a, "ranks"_a, "segments"_a, "arrivals_s"_a = std::vector<double>{},
      "root"_a = 0, "segment_time_s"_a = 0.0, "latency_s"_a = 0.0, "sum_s"_a = 0.0,
      "collective"_a = "", "node_of"_a = std::vector<std::int32_t>{},
      "ports"_a = std::vector<std::int32_t>{});
}

}  // namespace

void bind_algorithms(py::module_& m) {
  py::class_<Algorithm>(m, "Algorithm", "What is known of an algorithm; read-only.")
      .def_readonly("name", &Algorithm::name)
      .def_readonly("collective", &Algorithm::collective)
      .def_readonly("source", &Algorithm::source, "Paper and section.")
      .def_property_readonly("uses_arrivals",
                             [](const Algorithm& a) { return a.uses != algorithms::Uses::nothing; })
      .def_property_readonly(
          "uses_times", [](const Algorithm& a) { return a.uses == algorithms::Uses::times; },
          "Its schedules depend on how late ranks are, and not on their order alone.")
      .def_readonly("tree", &Algorithm::tree, "Every sum is that of the reproducible tree.")
      .def_readonly("by_node", &Algorithm::by_node, "It keeps ranks of one node together.")
      .def_readonly("by_port", &Algorithm::by_port, "It takes account of ports' bandwidths.")
      .def_property_readonly(
          "shares_ports", [](const Algorithm& a) { return a.pricing.flow != nullptr; },
          "Many ranks' messages come to one at once: simulated with shared ports.")
      .def_property_readonly("dynamic", &Algorithm::dynamic,
                             "Ranks take their places as they really arrive.")
      .def(
          "segments",
          [](const Algorithm& algorithm, int ranks, std::uint64_t message_bytes,
             std::uint64_t elements, const Link& link) {
            return segments_for(algorithm, ranks, {message_bytes, elements}, link);
          },
          "ranks"_a, "message_bytes"_a, "elements"_a, "link"_a,
          "How many the message is cut into: at least 1, at most its elements.")
      .def("times", &times, "ranks"_a, "segments"_a, "message_bytes"_a, "together"_a,
           "segment_time_s"_a, "link"_a,
           "What its schedule depends on beside arrivals, 0 where it does not. together: no rank "
           "is expected to be late. segment_time_s: what the caller gave, or None. link is only "
           "called where something depends on it.")
      .def("estimate", &estimate, "arrivals_s"_a, "segments"_a, "message_bytes"_a, "link"_a,
           "finish_s per rank in closed form, for tests; arrivals in the algorithm's order of "
           "ranks. Raises ScheduleError if there is none.");
  const auto borrowed = py::return_value_policy::reference;
  m.def("algorithms", &algorithms::algorithms, borrowed);
  m.def("find_algorithm", &find_algorithm, "name"_a, "collective"_a = "", borrowed,
        "Of those of one name that for `collective`; \"\": the first. Raises ScheduleError.");
  m.def("usual_algorithm", &algorithms::usual_algorithm, "collective"_a, borrowed,
        "Where none is named, and nothing is known of the arrivals.");
  bind_generators(m);
  m.def(
      "metering_shift",
      [](int ranks, int pieces, std::vector<std::int32_t> node_of) {
        const algorithms::Shift shift =
            algorithms::metering_shift(ranks, pieces, std::move(node_of));
        return py::make_tuple(shift.key, shift.blocks, shift.rounds, shift.taking_part);
      },
      "ranks"_a, "pieces"_a, "node_of"_a = std::vector<std::int32_t>{},
      "A shift's key, its blocks, its rounds, and the ranks that take part.");
  m.def(
      "metering_long_shift",
      [](int ranks, std::vector<std::int32_t> node_of) {
        const algorithms::Shift shift = algorithms::metering_long_shift(ranks, std::move(node_of));
        return py::make_tuple(shift.key, shift.blocks, shift.rounds, shift.taking_part);
      },
      "ranks"_a, "node_of"_a = std::vector<std::int32_t>{}, "The same of one of many rounds.");
  m.def(
      "metering_neighbours",
      [](std::vector<double> order, std::vector<std::int32_t> node_of) {
        const algorithms::Shift shift =
            algorithms::metering_neighbours(std::move(order), std::move(node_of));
        return py::make_tuple(shift.key, shift.blocks, shift.taking_part);
      },
      "order"_a, "node_of"_a = std::vector<std::int32_t>{},
      "The same of a shift by one in the order of these numbers, one per rank: its key, its "
      "blocks, "
      "and the ranks that take part, in that order.");
  m.def("table_key", &algorithms::table_key, "message_bytes"_a, "ranks"_a);
  m.def("swap_key", &algorithms::swap_key, "ranks"_a);
  m.def("spread_key", &algorithms::spread_key, "ranks"_a);
}

}  // namespace patallreduce::bindings
