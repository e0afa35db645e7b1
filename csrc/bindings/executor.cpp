#include <pybind11/stl.h>

#include <algorithm>

#include "algorithms/internal_keys.h"
#include "algorithms/resolve.h"
#include "bindings/bindings.h"
#include "bindings/owned.h"
#include "bindings/waiting.h"
#include "errors.h"
#include "executor/engine.h"

namespace patallreduce::bindings {

using algorithms::barrier_key;
using algorithms::collective_of;
using algorithms::is_dynamic;
using algorithms::steps_of;
using executor::Call;
using executor::EngineOptions;
using executor::find_carrier;
using executor::raise;
using executor::Snapshot;
using reduction::Dtype;
using reduction::Op;
using schedule::ScheduleKey;
using transport::Transport;

using namespace pybind11::literals;

namespace {

constexpr double signal_check_s = 0.1;  // how soon Ctrl-C is noticed

Call make_call(std::uint64_t count, Dtype dtype, Op op, std::int64_t label, std::string algorithm,
               int segments, std::vector<double> arrivals_s, double segment_time_s, int root,
               double latency_s, double sum_s, std::vector<std::int32_t> node_of,
               std::vector<std::int32_t> ports) {
  Call call;
  call.count = count;
  call.dtype = dtype;
  call.op = op;
  call.label = label;
  call.key = {std::move(algorithm),
              segments,
              std::move(arrivals_s),
              segment_time_s,
              root,
              latency_s,
              sum_s,
              std::move(node_of),
              std::move(ports)};
  return call;
}

Call call_of_key(std::uint64_t count, Dtype dtype, Op op, const ScheduleKey& key) {
  Call call;
  call.count = count;
  call.dtype = dtype;
  call.op = op;
  call.key = key;
  return call;
}

}  // namespace

// A signal's exception aborts the communicator: the other ranks must not wait for a rank that gave
// up.
void wait_for(Engine& engine, const Ticket& ticket) {
  for (;;) {
    {
      py::gil_scoped_release release;
      if (engine.wait(ticket, signal_check_s)) break;
    }
    if (PyErr_CheckSignals() != 0) {
      py::error_already_set interrupt;
      engine.abort("interrupted by a signal");
      throw interrupt;
    }
  }
  if (ticket.failure) raise(*ticket.failure);
}

void bind_executor(py::module_& m) {
  py::enum_<Dtype> dtype(m, "Dtype");
  for (const Dtype value : {Dtype::float32, Dtype::float64, Dtype::float16, Dtype::bfloat16,
                            Dtype::int32, Dtype::int64, Dtype::uint8})
    dtype.value(name(value), value);
  py::enum_<Op> op(m, "Op");
  for (const Op value : {Op::sum, Op::avg, Op::min, Op::max, Op::prod})
    op.value(name(value), value);

  py::class_<ScheduleKey>(m, "ScheduleKey", "What a schedule is generated from, or was given as.")
      .def("__str__", [](const ScheduleKey& key) { return describe(key); });

  py::class_<Call>(m, "Call", "What every rank must ask for alike.")
      .def(py::init(&make_call), "count"_a, "dtype"_a, "op"_a, "label"_a, "algorithm"_a,
           "segments"_a, "arrivals_s"_a, "segment_time_s"_a, "root"_a = -1, "latency_s"_a = 0.0,
           "sum_s"_a = 0.0, "node_of"_a = std::vector<std::int32_t>{},
           "ports"_a = std::vector<std::int32_t>{})
      .def_static("of_key", &call_of_key, "count"_a, "dtype"_a, "op"_a, "key"_a)
      .def(
          "planned",
          [](const Call& call, std::int64_t loop, std::int64_t iteration) {
            Call planned = call;
            planned.loop = loop;
            planned.iteration = iteration;
            planned.label = std::max<std::int64_t>(planned.label, 0);
            return planned;
          },
          "loop"_a, "iteration"_a, "The same, with the schedule that the plan says.")
      .def(
          "carried_by",
          [](const Call& call, const std::string& carrier) {
            Call carried = call;
            carried.carrier = find_carrier(carrier);
            return carried;
          },
          "carrier"_a, "The same, for memory that 'host', 'device' or 'streams' carries.")
      .def("__str__", [](const Call& call) { return describe(call); });

  py::class_<Ticket, std::shared_ptr<Ticket>>(m, "Ticket")
      .def_readonly("seq", &Ticket::seq)
      .def_property_readonly("done", [](const Ticket& t) { return t.done.load(); })
      .def_readonly("arrival_s", &Ticket::arrival_s)
      .def_readonly("finish_s", &Ticket::finish_s)
      .def_property_readonly("key_text", [](const Ticket& t) { return describe(t.key); })
      .def_property_readonly("algorithm", [](const Ticket& t) { return t.key.algorithm; })
      .def_property_readonly("segments", [](const Ticket& t) { return t.key.segments; })
      .def_readonly("planned", &Ticket::planned)
      .def_readonly("place", &Ticket::place)
      .def_property_readonly("drained_s", [](const Ticket& t) { return t.drained_s.load(); })
      .def(
          "check",
          [](const Ticket& t) {
            if (t.failure) raise(*t.failure);
          },
          "Raises what the collective failed with, if it did.");

  py::class_<Engine, std::shared_ptr<Engine>>(m, "Engine")
      .def(py::init([](std::shared_ptr<Transport> transport, double spin_s, bool shares_cores,
                       std::size_t scratch_bytes) {
             return make_owned<Engine>(std::move(transport),
                                       EngineOptions{spin_s,
                                                     shares_cores,
                                                     scratch_bytes,
                                                     {steps_of, is_dynamic, collective_of},
                                                     barrier_key()});
           }),
           "transport"_a, "spin_s"_a, "shares_cores"_a, "scratch_bytes"_a)
      .def("start", &Engine::start, "timeout_s"_a, py::call_guard<py::gil_scoped_release>())
      .def(
          "submit",
          [](Engine& engine, std::uintptr_t data, const Call& call, double timeout_s) {
            return engine.submit(reinterpret_cast<void*>(data), call, timeout_s);
          },
          "data"_a, "call"_a, "timeout_s"_a, "Returns at once.")
      .def("given", &Engine::given, "schedule"_a, py::call_guard<py::gil_scoped_release>(),
           "The key of a schedule that a caller gives, proved. Raises ScheduleError.")
      .def(
          "begin",
          [](Engine& engine, std::uintptr_t data, const Call& call, double timeout_s) {
            return engine.begin(reinterpret_cast<void*>(data), call, timeout_s);
          },
          "data"_a, "call"_a, "timeout_s"_a, "For a caller that goes on to wait().")
      .def("wait", &wait_for, "ticket"_a, "Drives the transport from this thread until done.")
      .def("expect", &Engine::expect, "ticket"_a, "next_done() returns it once it is done.")
      .def("next_done", &Engine::next_done, "timeout_s"_a, py::call_guard<py::gil_scoped_release>())
      .def("abort", py::overload_cast<const std::string&>(&Engine::abort), "why"_a,
           py::call_guard<py::gil_scoped_release>())
      .def("drain", &Engine::drain, "timeout_s"_a, py::call_guard<py::gil_scoped_release>(),
           "Seconds for which other ranks may still wait for what this rank sends.")
      .def("close", &Engine::close, "timeout_s"_a, py::call_guard<py::gil_scoped_release>())
      .def("check_process", &Engine::check_process)
      .def("check",
           [](const Engine& engine) {
             engine.check_process();
             if (const auto f = engine.failure()) raise(*f);
           })
      .def(
          "snapshot",
          [](Engine& engine) {
            Snapshot taken;
            {
              py::gil_scoped_release release;
              taken = engine.snapshot();
            }
            py::list peers, waiting;
            for (const auto& peer : taken.peers)
              peers.append(py::dict("called"_a = peer.called, "heard_s"_a = peer.heard_s));
            for (const auto& one : taken.waiting)
              waiting.append(py::dict("number"_a = one.seq, "call"_a = one.call,
                                      "arrival_s"_a = one.arrival_s, "waits_for"_a = one.waits_for,
                                      "for_plan"_a = one.for_plan));
            return py::dict("failed"_a = taken.failed, "at_s"_a = taken.at_s,
                            "called"_a = taken.called, "peers"_a = peers, "waiting"_a = waiting);
          },
          "What this rank knows of its collectives and of the others; see executor/snapshot.h.")
      .def("algorithm_now", &Engine::algorithm_now, "call"_a,
           "What would run if the call came now; empty: its plan is not here yet.")
      .def_property_readonly("plans_ended", &Engine::plans_ended)
      .def_property_readonly("scratch_peak_bytes", [](Engine& engine) {
        py::gil_scoped_release release;
        return engine.scratch_peak_bytes();
      });
  m.def("now_s", &now_s, "The clock of all times: CLOCK_MONOTONIC, as time.monotonic().");
}

}  // namespace patallreduce::bindings
