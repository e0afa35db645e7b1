// Prices of schedules on a link, and choices.
#include "pricing/simulation.h"

#include <pybind11/stl.h>

#include <tuple>

#include "bindings/bindings.h"
#include "bindings/link.h"
#include "errors.h"
#include "pricing/lower_bound.h"
#include "selection/planner.h"

namespace patallreduce::bindings {

using pricing::InFlight;
using pricing::Link;
using pricing::Outcome;
using pricing::PortsBusy;
using pricing::run_together;
using pricing::simulate;
using pricing::Simulation;
using pricing::Turn;
using schedule::Schedule;
using selection::Choice;
using selection::IterationForecast;
using selection::IterationPlan;
using selection::Planner;
using selection::Rules;
using selection::Selector;
using selection::TunedRules;

using namespace py::literals;

namespace {

py::tuple simulate_on_link(const Schedule& schedule, std::uint64_t message_bytes,
                           const std::vector<double>& arrivals_s, const Link& link) {
  Outcome outcome;
  {
    py::gil_scoped_release release;
    outcome = simulate(schedule, message_bytes, link, arrivals_s);
  }
  return py::make_tuple(outcome.finish_s, outcome.average_elapsed_s(arrivals_s),
                        outcome.after_last_arrival_s(arrivals_s));
}

using Collective = std::tuple<std::shared_ptr<const Simulation>, std::uint64_t,
                              std::vector<std::int32_t>, std::vector<double>, int>;
using Busy = std::pair<std::vector<double>, std::vector<double>>;

Turn turn_of(const std::string& name) {
  static constexpr std::pair<const char*, Turn> turns[] = {
      {"first_ready", Turn::first_ready},
      {"first_collective", Turn::first_collective},
      {"last_collective", Turn::last_collective},
      {"least_left", Turn::least_left}};
  for (const auto& [known, turn] : turns)
    if (name == known) return turn;
  throw ScheduleError(
      concat("turn: expected first_ready, first_collective, last_collective or "
             "least_left, got ",
             name));
}

std::pair<std::vector<std::vector<double>>, Busy> simulate_together(
    const std::vector<Collective>& collectives, const Link& link, Busy busy,
    const std::string& turn, bool shared_ports) {
  std::vector<InFlight> in_flight;
  for (const auto& [simulation, message_bytes, ranks, arrivals_s, pieces] : collectives)
    in_flight.push_back({simulation.get(), message_bytes, ranks, arrivals_s, pieces});
  PortsBusy ports{std::move(busy.first), std::move(busy.second)};
  std::vector<std::vector<double>> finish_s;
  {
    py::gil_scoped_release release;
    finish_s = run_together(in_flight, link, ports, turn_of(turn), shared_ports);
  }
  return {std::move(finish_s), {ports.sends_until_s, ports.receives_until_s}};
}

// (algorithm, segments, arrivals_s, segment_time_s, price_s)
py::tuple fields_of(const Choice& choice) {
  return py::make_tuple(choice.key.algorithm, choice.key.segments, choice.key.arrivals_s,
                        choice.key.segment_time_s, choice.price_s);
}

// (most_bytes, algorithm, segment_bytes)
using RuleTuple = std::tuple<std::uint64_t, std::string, std::uint64_t>;

void bind_rules(py::module_& m) {
  py::class_<Rules>(m, "Rules",
                    "What was measured to be fastest, by the size of the message "
                    "(csrc/selection/rules.h).")
      .def(py::init([](const std::vector<RuleTuple>& told, const std::string& collective) {
             std::vector<selection::Rule> rules;
             for (const auto& [most_bytes, algorithm, segment_bytes] : told)
               rules.push_back({most_bytes, algorithm, segment_bytes});
             return Rules(std::move(rules), collective);
           }),
           "rules"_a = std::vector<RuleTuple>{}, "collective"_a = "all_reduce",
           "rules: (most_bytes, algorithm, segment_bytes), 0 where the algorithm's own rule cuts. "
           "Raises ScheduleError unless most_bytes grow and the algorithms are the collective's.")
      .def("__bool__", [](const Rules& rules) { return !rules.empty(); })
      .def(
          "choose",
          [](const Rules& rules, int ranks, std::uint64_t elements, std::size_t element_bytes,
             const Link& link) {
            const auto found = rules.choose(ranks, {elements * element_bytes, elements}, link);
            using Told = std::optional<std::pair<std::string, int>>;
            return found ? Told({found->first->name, found->second}) : Told();
          },
          "ranks"_a, "elements"_a, "element_bytes"_a, "link"_a,
          "(algorithm, segments); None: nothing is known of such a size. ranks: or nodes, where "
          "the algorithm works by node.");
}

void bind_selector(py::module_& m) {
  // Shared with the monitor, whose thread outlives what Python holds.
  py::class_<Selector, std::shared_ptr<Selector>>(
      m, "Selector",
      "Chooses algorithm and segments under predicted arrivals, by simulation. "
      "Raises ScheduleError for no ranks or a link that makes no sense.")
      .def(py::init([](int ranks, Link link, std::vector<std::int32_t> node_of, const Rules& alone,
                       const Rules& beside_others) {
             return std::make_shared<Selector>(ranks, std::move(link), std::move(node_of), false,
                                               TunedRules{alone, beside_others});
           }),
           "ranks"_a, "link"_a, "node_of"_a = std::vector<std::int32_t>{}, "alone"_a = Rules(),
           "beside_others"_a = Rules())
      .def(
          "choose",
          [](Selector& selector, std::uint64_t elements, std::size_t element_bytes,
             std::vector<double> arrivals_s, std::vector<double> errors_s) {
            return fields_of(selector.choose(elements, element_bytes,
                                             {std::move(arrivals_s), std::move(errors_s)}));
          },
          "elements"_a, "element_bytes"_a, "arrivals_s"_a, "errors_s"_a = std::vector<double>{},
          "(algorithm, segments, arrivals_s, segment_time_s, price_s) of the cheapest; the middle "
          "three are what to generate its schedule from. Raises ScheduleError for a forecast that "
          "is not finite numbers, one per rank.")
      .def(
          "choose_beside_others",
          [](Selector& selector, std::uint64_t elements, std::size_t element_bytes) {
            Choice choice;
            {
              py::gil_scoped_release release;
              choice = selector.choose_beside_others(elements, element_bytes);
            }
            return fields_of(choice);
          },
          "elements"_a, "element_bytes"_a,
          "The cheapest where all ranks come together and other collectives like it are in flight; "
          "as choose() returns it.")
      .def(
          "price_all",
          [](Selector& selector, std::uint64_t elements, std::size_t element_bytes,
             std::vector<double> arrivals_s, std::vector<double> errors_s) {
            py::list all;
            for (const Choice& choice : selector.price_all(
                     elements, element_bytes, {std::move(arrivals_s), std::move(errors_s)})) {
              all.append(fields_of(choice));
            }
            return all;
          },
          "elements"_a, "element_bytes"_a, "arrivals_s"_a, "errors_s"_a = std::vector<double>{},
          "Every candidate as choose() returns it, the safe one first; computed anew.");
}

// (elements, element_bytes)
using Size = std::pair<std::uint64_t, std::uint64_t>;
// (algorithm, segments, arrivals_s, segment_time_s)
using Key = std::tuple<std::string, int, std::vector<double>, double>;

std::vector<selection::Bucket> buckets_of(const std::vector<Size>& sizes) {
  std::vector<selection::Bucket> buckets;
  for (const auto& [elements, bytes] : sizes) buckets.push_back({elements * bytes, elements});
  return buckets;
}

void bind_planner(py::module_& m) {
  py::class_<Planner, std::shared_ptr<Planner>>(
      m, "Planner",
      "Plans a job's iterations: how each bucket is reduced, so that the job goes on soonest. "
      "Raises ScheduleError for no ranks or a link that makes no sense.")
      .def(py::init([](int ranks, Link link, double margin, std::vector<std::int32_t> node_of,
                       double most_wait, const Rules& alone, const Rules& beside_others) {
             return std::make_shared<Planner>(ranks, std::move(link), margin, std::move(node_of),
                                              most_wait, TunedRules{alone, beside_others});
           }),
           "ranks"_a, "link"_a, "margin"_a = Planner::usual_margin,
           "node_of"_a = std::vector<std::int32_t>{}, "most_wait"_a = HUGE_VAL, "alone"_a = Rules(),
           "beside_others"_a = Rules())
      .def(
          "plan",
          [](Planner& planner, const std::vector<Size>& sizes,
             std::vector<std::vector<double>> arrivals_s, std::vector<double> errors_s,
             std::vector<double> compute_s, std::vector<double> spreads_s, bool at_once,
             std::string before) {
            IterationForecast forecast;
            forecast.buckets = buckets_of(sizes);
            forecast.arrivals_s = std::move(arrivals_s);
            forecast.errors_s = std::move(errors_s);
            forecast.compute_s = std::move(compute_s);
            forecast.spreads_s = std::move(spreads_s);
            forecast.before = std::move(before);
            std::optional<IterationPlan> plan;
            {
              py::gil_scoped_release release;
              plan = at_once ? planner.plan_at_once(forecast) : planner.plan(forecast);
            }
            using Told = std::tuple<std::vector<Key>, double, double>;
            if (!plan) return std::optional<Told>();
            std::vector<Key> keys;
            for (const auto& key : plan->keys)
              keys.emplace_back(key.algorithm, key.segments, key.arrivals_s, key.segment_time_s);
            return std::optional(Told(std::move(keys), plan->pace_s, plan->plain_pace_s));
          },
          "sizes"_a, "arrivals_s"_a, "errors_s"_a = std::vector<double>{},
          "compute_s"_a = std::vector<double>{}, "spreads_s"_a = std::vector<double>{},
          "at_once"_a = false, "before"_a = "",
          "([(algorithm, segments, arrivals_s, segment_time_s)] by bucket, or [] where no plan is "
          "faster; seconds per iteration with it and without). `sizes`: (elements, element_bytes) "
          "by bucket; arrivals_s: by bucket and rank; the others, per rank, as of the forecast in "
          "csrc/selection/forecast.h. before: the algorithm of the plan before, if any. at_once: "
          "the usual plan where that suits, or None where all "
          "would wait for more than most_wait of an iteration; catch_up() then works it out. "
          "Raises ScheduleError for what is not finite "
          "numbers.")
      .def("catch_up", &Planner::catch_up, "confirms"_a = true,
           "False: no plan was left to be worked out, or, unless it confirms, the usual one.")
      .def_property("ports", &Planner::ports, &Planner::set_ports,
                    "Bytes per second of each rank's port; [] where ranks share nodes. Calls "
                    "without a plan keep to those that it was made with.")
      .def(
          "finish_s",
          [](Planner& planner, const std::vector<Size>& sizes,
             std::vector<std::vector<double>> arrivals_s, const std::vector<Key>& keys) {
            std::vector<schedule::ScheduleKey> planned;
            for (const auto& [algorithm, segments, hints_s, segment_time_s] : keys)
              planned.push_back({algorithm, segments, hints_s, segment_time_s});
            IterationForecast arrived;
            arrived.buckets = buckets_of(sizes);
            arrived.arrivals_s = std::move(arrivals_s);
            return planner.finish_s(planned, arrived);
          },
          "sizes"_a, "arrivals_s"_a, "keys"_a = std::vector<Key>{},
          "When each rank has its last result of an iteration with these arrivals, whose buckets "
          "are reduced as plan() says, or without a plan; [] where that would take long to tell. "
          "Raises ScheduleError as plan() does, and for keys of not as many buckets.");
}

}  // namespace

void bind_simulation(py::module_& m) {
  m.def(
      "lower_bound",
      [](const Link& link, const std::vector<std::uint64_t>& message_bytes,
         const std::vector<std::vector<double>>& arrivals_s, std::vector<double> ports,
         double burst_s) {
        pricing::LowerBound bound =
            pricing::lower_bound(link, message_bytes, arrivals_s, std::move(ports), burst_s);
        return std::make_pair(std::move(bound.finish_s), bound.last_finish_s);
      },
      "link"_a, "message_bytes"_a, "arrivals_s"_a, "ports"_a = std::vector<double>{},
      "burst_s"_a = 0.0,
      "(finish_s by rank, last_finish_s) of patallreduce.lower_bound; by bucket and rank, "
      "arrivals_s: finite, as many ranks in each; ports: bytes/s of each rank, []: the link's; "
      "burst_s: by so much a port may be ahead of that.");
  m.def("simulate", &simulate_on_link, "schedule"_a, "message_bytes"_a, "arrivals_s"_a, "link"_a,
        "(finish_s, average_elapsed_s, after_last_arrival_s); an empty arrivals_s is all 0. "
        "Raises ScheduleError for arrivals or a link that make no sense, and for a deadlock.");
  py::class_<Simulation, std::shared_ptr<Simulation>>(
      m, "Simulation", "A schedule prepared to be simulated many times.")
      .def(py::init<const Schedule&>(), "schedule"_a);
  m.def(
      "simulate_together", &simulate_together, "collectives"_a, "link"_a, "busy"_a = Busy{},
      "turn"_a = "first_ready", "shared_ports"_a = false,
      "Of several collectives on the same ports: ((collectives, P) finish_s, by place in their "
      "schedules; (sends_until_s, receives_until_s) per rank). A collective is (Simulation, "
      "message_bytes, ranks, arrivals_s, pieces): the rank at each place, or [], when it arrives, "
      "from 0 on, and in how many pieces each message is handed on (1 where ports are shared, as "
      "of Network). `busy`: the ports' times before, as returned; shared ports leave none. `turn`: "
      "which of a port's ready sends leaves next: that of the "
      "first_collective, of the last_collective, or of the one with the least_left to do. Raises "
      "ScheduleError for what makes no sense.");
  bind_network(m);
  bind_rules(m);
  bind_selector(m);
  bind_planner(m);
  m.def(
      "transfer_s",
      [](double message_bytes, const Link& link) { return link.transfer_s(message_bytes); },
      "message_bytes"_a, "link"_a,
      "Seconds that a message of so many bytes occupies a port, without latency.");
  m.def("port_widths", &pricing::port_widths, "bytes_per_s"_a,
        "Whole numbers that compare ports of these bandwidths, each > 0; [] if they are alike.");
}

}  // namespace patallreduce::bindings
