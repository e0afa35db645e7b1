// Schedules as Python sees them: verbs are words, steps and schedules read-only values.
#include "schedule/schedule.h"

#include <pybind11/operators.h>
#include <pybind11/stl.h>

#include "bindings/bindings.h"
#include "errors.h"
#include "pricing/rounds.h"
#include "schedule/lanes.h"
#include "schedule/levels.h"
#include "schedule/print.h"
#include "schedule/sum_order.h"
#include "schedule/table.h"
#include "schedule/verify.h"

namespace patallreduce::bindings {

using pricing::rounds_of;
using schedule::heading;
using schedule::lanes_for;
using schedule::lanes_of;
using schedule::Levels;
using schedule::levels_of;
using schedule::Problem;
using schedule::Schedule;
using schedule::Step;
using schedule::Steps;
using schedule::sum_orders;
using schedule::SumOrders;
using schedule::table;
using schedule::text;
using schedule::Verb;
using schedule::verify;

using namespace py::literals;

namespace {

Verb verb_of(const std::string& word) {
  for (const Verb verb : {Verb::send, Verb::recv, Verb::recv_reduce}) {
    if (word == name(verb)) return verb;
  }
  throw ScheduleError(concat("unknown verb '", word, "'; known: send, recv, recv_reduce"));
}

const Steps& steps_of(const Schedule& schedule, int rank) {
  PATR_CHECK(rank >= 0 && rank < schedule.problem.ranks, ScheduleError, "expected a rank in 0..",
             schedule.problem.ranks - 1, ", got rank = ", rank);
  return schedule.steps[rank];
}

// [rank][segment] -> nested pairs (received, held). Equal numbers become one object.
py::list nested_sum_orders(const Schedule& schedule) {
  const SumOrders orders = sum_orders(schedule);
  std::vector<py::object> nested;
  nested.reserve(orders.sums.size());
  for (const SumOrders::Sum& sum : orders.sums) {
    if (sum.received < 0) {
      nested.push_back(py::int_(nested.size()));
    } else {
      nested.push_back(py::make_tuple(nested[sum.received], nested[sum.held]));
    }
  }
  py::list ranks;
  const int segments = schedule.problem.segments;
  for (int rank = 0; rank < schedule.problem.ranks; ++rank) {
    py::list row;
    for (int s = 0; s < segments; ++s) {
      row.append(nested[orders.result[std::size_t(rank) * segments + s]]);
    }
    ranks.append(row);
  }
  return ranks;
}

// As the papers print theirs; a schedule whose messages do not match has no rounds to show.
std::string print(const Schedule& schedule) {
  try {
    const std::string lines = table(schedule, rounds_of(schedule));
    return concat(heading(schedule), "\n(peer,segment) by round; = replaces what is held\n", lines);
  } catch (const ScheduleError&) {
    return text(schedule);
  }
}

void bind_step(py::module_& m) {
  py::class_<Step>(m, "Step",
                   "One message of one rank: verb \"send\", \"recv\" or \"recv_reduce\" with "
                   "`peer` over the half-open range of segments [first, last). `round` is -1 where "
                   "the algorithm has no rounds. Raises ScheduleError for another verb.")
      .def(py::init([](const std::string& verb, int peer, int first, int last, int round) {
             return Step{verb_of(verb), peer, first, last, round};
           }),
           "verb"_a, "peer"_a, "first"_a, "last"_a, "round"_a = -1)
      .def_property_readonly("verb", [](const Step& step) { return name(step.verb); })
      .def_readonly("peer", &Step::peer)
      .def_readonly("first", &Step::first)
      .def_readonly("last", &Step::last)
      .def_readonly("round", &Step::round)
      .def(py::self == py::self)
      .def("__hash__",
           [](const Step& step) {
             return py::hash(
                 py::make_tuple(name(step.verb), step.peer, step.first, step.last, step.round));
           })
      .def("__str__", [](const Step& step) { return text(step); })
      .def("__repr__", [](const Step& step) {
        return concat("Step('", name(step.verb), "', ", step.peer, ", ", step.first, ", ",
                      step.last, ", round=", step.round, ")");
      });
}

}  // namespace

void bind_schedule(py::module_& m) {
  bind_step(m);
  py::class_<Schedule>(
      m, "Schedule",
      "The steps of every rank, read-only. Made by patallreduce.schedule(), or by "
      "from_steps() for an algorithm of your own. str() is a table of what every rank "
      "receives and sends, round by round: the algorithm's rounds, or else as if "
      "every message took one.")
      .def_static(
          "from_steps",
          [](std::vector<Steps> steps, int segments, std::string algorithm, std::string collective,
             int root, bool tree) {
            Schedule schedule{std::move(algorithm),
                              std::move(collective),
                              Problem{int(steps.size()), segments, {}, 0, root},
                              {},
                              tree};
            check(schedule.problem);
            schedule.steps = std::move(steps);
            return schedule;
          },
          "steps"_a, "segments"_a, py::kw_only(), "algorithm"_a = "custom",
          "collective"_a = "all_reduce", "root"_a = 0, "tree"_a = false,
          "A schedule of your own, steps[rank] -> list of Step; not verified: see verify(). "
          "`tree`: it promises the reproducible tree's sums, which verify() then proves. "
          "Raises ScheduleError for no ranks, segments < 1 or a root out of range.")
      .def_readonly("algorithm", &Schedule::algorithm)
      .def_readonly("collective", &Schedule::collective)
      .def_readonly("tree", &Schedule::tree)
      .def_property_readonly("ranks", [](const Schedule& s) { return s.problem.ranks; })
      .def_property_readonly("segments", [](const Schedule& s) { return s.problem.segments; })
      .def_property_readonly("arrivals_s", [](const Schedule& s) { return s.problem.arrivals_s; })
      .def_property_readonly("node_of", [](const Schedule& s) { return s.problem.node_of; })
      .def_property_readonly("ports", [](const Schedule& s) { return s.problem.ports; })
      .def_property_readonly("root", [](const Schedule& s) { return s.problem.root; })
      .def("steps", &steps_of, "rank"_a,
           "The steps of one rank, in program order. Raises ScheduleError for an unknown rank.")
      .def("sum_orders", &nested_sum_orders,
           "[rank][segment] -> the sum it ends with: a rank's number, or a pair (received, held) "
           "of sums. Operand order carries no meaning: (a, b) on one rank is (b, a) on another. "
           "Raises ScheduleError for unmatched messages and deadlock.")
      .def(
          "listing", [](const Schedule& schedule) { return text(schedule); },
          "One line per step, rank by rank, numbered as in errors.")
      .def("__str__", &print, py::call_guard<py::gil_scoped_release>())
      .def("__repr__", [](const Schedule& s) { return concat("<Schedule ", heading(s), ">"); });

  m.def("verify", &verify, "schedule"_a, py::call_guard<py::gil_scoped_release>());
  m.def(
      "levels",
      [](const Schedule& schedule, int ports) {
        Levels levels = levels_of(schedule, ports);
        return std::make_pair(levels.count, std::move(levels.of_step));
      },
      "schedule"_a, "ports"_a = 1, py::call_guard<py::gil_scoped_release>(),
      "(how many, [rank][step] -> its level): groups of messages for transports without tags.");
  m.def(
      "lanes",
      [](const Schedule& schedule, int lanes, int ports) {
        return lanes_of(schedule, levels_of(schedule, ports), lanes);
      },
      "schedule"_a, "lanes"_a, "ports"_a = 1, py::call_guard<py::gil_scoped_release>(),
      "[rank][step] -> its lane: a group per level and lane.");
  m.def("lanes_for", &lanes_for, "ranks"_a, "How many lanes chains and rings need.");
}

}  // namespace patallreduce::bindings
