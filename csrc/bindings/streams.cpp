// Collectives on a GPU's streams by raw address, and their programs as plain data.
#include <pybind11/stl.h>

#include "algorithms/resolve.h"
#include "bindings/bindings.h"
#include "bindings/owned.h"
#include "clock.h"
#include "errors.h"
#include "gpu/nccl/calls.h"

namespace patallreduce::bindings {

using executor::Call;
using executor::Engine;
using executor::raise;
using executor::Ticket;
using gpu::Apply;
using gpu::Behind;
using gpu::Group;
using gpu::Memory;
using gpu::Nccl;
using gpu::NcclLibrary;
using gpu::PatrNcclUniqueId;
using gpu::Stage;
using gpu::StreamCalls;
using gpu::StreamDevice;
using gpu::StreamExecutor;
using gpu::StreamProgram;
using gpu::StreamTicket;
using gpu::StreamWork;
using gpu::Transfer;
using reduction::CudaLibrary;
using reduction::find_dtype;
using reduction::find_op;
using schedule::Schedule;

namespace {

using namespace pybind11::literals;
using Address = std::uintptr_t;
using Message = std::tuple<int, int, int, std::string>;
using Sum = std::tuple<int, int, std::string, std::string, std::string, int, std::string, bool>;
using Groups = std::vector<std::pair<int, int>>;  // lane, stage
using GroupRow = std::tuple<int, int, Groups, std::vector<Message>, std::vector<Message>>;
using StageRow = std::tuple<int, std::vector<GroupRow>, Groups, std::vector<Sum>>;

// Signals are looked for this often while Python waits.
constexpr double slice_s = 0.05;

void* at(Address address) { return reinterpret_cast<void*>(address); }

std::string name(Memory memory) {
  switch (memory) {
    case Memory::home:
      return "home";
    case Memory::scratch:
      return "scratch";
    case Memory::shadow:
      return "shadow";
    default:
      return "";
  }
}

std::vector<Message> rows(const std::vector<Transfer>& transfers, int lane) {
  std::vector<Message> all;
  for (const Transfer& one : transfers) {
    if (one.lane == lane) all.emplace_back(one.peer, one.first, one.last, name(one.memory));
  }
  return all;
}

Groups groups_of(const Behind& behind) {
  Groups all;
  for (std::size_t lane = 0; lane < behind.size(); ++lane) {
    if (behind[lane] >= 0) all.emplace_back(int(lane), behind[lane]);
  }
  return all;
}

std::vector<StageRow> stages(const StreamProgram& program) {
  std::vector<StageRow> all;
  for (const Stage& stage : program.stages) {
    std::vector<GroupRow> groups;
    for (int lane = 0; lane < program.lanes; ++lane) {
      const Group& group = stage.groups[lane];
      if (!group.has_messages) continue;
      groups.emplace_back(lane, group.after, groups_of(group.behind), rows(stage.sends, lane),
                          rows(stage.receives, lane));
    }
    std::vector<Sum> sums;
    for (const Apply& one : stage.applies) {
      sums.emplace_back(one.first, one.last, name(one.out), name(one.also), name(one.received),
                        one.receive, name(one.held), one.callers);
    }
    all.emplace_back(stage.region, std::move(groups), groups_of(stage.behind), std::move(sums));
  }
  return all;
}

PatrNcclUniqueId unique_id_of(const std::string& bytes) {
  PatrNcclUniqueId id;
  PATR_CHECK(bytes.size() == sizeof id.internal, std::invalid_argument, "unique id: expected ",
             sizeof id.internal, " bytes, got ", bytes.size());
  bytes.copy(id.internal, sizeof id.internal);
  return id;
}

// A communicator per lane, one after the other, as on all ranks.
std::vector<std::unique_ptr<Nccl>> make_lanes(const StreamDevice& gpu, const std::string& nccl,
                                              const std::vector<PatrNcclUniqueId>& ids, int rank,
                                              int ranks, double timeout_s) {
  const double deadline_s = now_s() + timeout_s;
  std::vector<std::unique_ptr<Nccl>> lanes;
  for (const PatrNcclUniqueId& id : ids) {
    lanes.push_back(
        std::make_unique<Nccl>(NcclLibrary::open(nccl), gpu, id, rank, ranks, deadline_s));
  }
  return lanes;
}

std::vector<PatrNcclUniqueId> unique_ids_of(const std::vector<std::string>& lanes) {
  std::vector<PatrNcclUniqueId> ids;
  for (const std::string& bytes : lanes) ids.push_back(unique_id_of(bytes));
  return ids;
}

std::shared_ptr<StreamExecutor> make_executor(const std::string& library, const std::string& nccl,
                                              int device, int rank, int ranks,
                                              const std::vector<std::string>& unique_ids,
                                              double timeout_s) {
  const auto ids = unique_ids_of(unique_ids);
  py::gil_scoped_release release;
  auto gpu = std::make_unique<StreamDevice>(CudaLibrary::open(library), device);
  auto lanes = make_lanes(*gpu, nccl, ids, rank, ranks, timeout_s);
  return make_owned<StreamExecutor>(std::move(gpu), std::move(lanes));
}

template <typename Waited, typename Ticket>
void wait_for(Waited& waited, Ticket& ticket) {
  for (bool done = false; !done;) {
    {
      py::gil_scoped_release release;
      done = waited.wait(ticket, slice_s);
    }
    if (!done && PyErr_CheckSignals() != 0) throw py::error_already_set();
  }
}

std::shared_ptr<StreamCalls> make_calls(std::shared_ptr<Engine> engine, const std::string& library,
                                        const std::string& nccl, int device,
                                        const std::vector<std::string>& unique_ids,
                                        double timeout_s) {
  const auto ids = unique_ids_of(unique_ids);
  py::gil_scoped_release release;
  auto gpu = std::make_unique<StreamDevice>(CudaLibrary::open(library), device);
  auto lanes = make_lanes(*gpu, nccl, ids, engine->rank(), engine->ranks(), timeout_s);
  auto calls = make_owned<StreamCalls>(std::move(engine), std::move(gpu), std::move(lanes),
                                       algorithms::schedule_of);
  calls->connect(timeout_s);
  return calls;
}

void bind_calls(py::module_& m) {
  using NoGil = py::call_guard<py::gil_scoped_release>;
  py::class_<StreamWork, std::shared_ptr<StreamWork>>(m, "StreamWork", "A call of StreamCalls.")
      .def_property_readonly("engine_ticket",
                             [](const StreamWork& work) { return work.engine_ticket; })
      .def_property_readonly(
          "arrival_s", [](const StreamWork& work) { return work.stream_ticket->arrival_s.load(); },
          "When the contribution was seen to be there; 0: not yet.")
      .def_property_readonly(
          "finish_s", [](const StreamWork& work) { return work.stream_ticket->finish_s.load(); },
          "When the result was seen to be there; 0: not yet.")
      .def(
          "check",
          [](const StreamWork& work) {
            const Ticket& ticket = *work.engine_ticket;
            if (ticket.done && ticket.failure) raise(*ticket.failure);
          },
          "Raises what it failed with, if it did.");
  py::class_<StreamCalls, std::shared_ptr<StreamCalls>>(
      m, "StreamCalls",
      "All-reduces of a GPU's memory over NCCL, called like all others of an engine.")
      .def(py::init(&make_calls), "engine"_a, "library"_a, "nccl"_a, "device"_a, "unique_ids"_a,
           "timeout_s"_a)
      .def(
          "submit",
          [](StreamCalls& calls, Address home, const Call& call, Address stream, double timeout_s) {
            return calls.submit(at(home), call, at(stream), timeout_s);
          },
          "data"_a, "call"_a, "stream"_a, "timeout_s"_a, NoGil())
      .def("next_done", &StreamCalls::next_done, "timeout_s"_a, NoGil())
      .def(
          "join",
          [](StreamCalls& calls, StreamWork& work, Address stream) {
            calls.join(work, at(stream));
          },
          "ticket"_a, "stream"_a, NoGil())
      .def("wait", &wait_for<StreamCalls, StreamWork>, "ticket"_a)
      .def("has_result", &StreamCalls::wait, "ticket"_a, "within_s"_a, NoGil())
      .def("close", &StreamCalls::close, "timeout_s"_a, NoGil())
      .def_property_readonly("memory_bytes",
                             [](StreamCalls& calls) { return calls.executor().memory_bytes(); })
      .def_property_readonly("events",
                             [](StreamCalls& calls) { return calls.executor().events(); });
}

}  // namespace

void bind_streams(py::module_& m) {
  using NoGil = py::call_guard<py::gil_scoped_release>;
  m.def(
      "nccl_library",
      [](const std::string& nccl) {
        const NcclLibrary& library = NcclLibrary::open(nccl);
        return std::make_pair(library.path, library.version);
      },
      "nccl"_a, NoGil(), "Path and version of the NCCL opened.");
  m.def(
      "nccl_unique_id",
      [](const std::string& nccl) {
        const PatrNcclUniqueId id = NcclLibrary::open(nccl).unique_id();
        return py::bytes(id.internal, sizeof id.internal);
      },
      "nccl"_a, "What one rank makes, and all ranks of a communicator are given.");

  py::class_<StreamProgram, std::shared_ptr<StreamProgram>>(
      m, "StreamProgram", "One rank's share of a schedule, as groups of messages and sums.")
      .def(py::init([](const Schedule& schedule, int rank, int ports, int lanes, int regions,
                       bool early_out, bool scales) {
             py::gil_scoped_release release;
             return std::const_pointer_cast<StreamProgram>(
                 gpu::compile(schedule, rank, {ports, lanes, regions, early_out, scales}));
           }),
           "schedule"_a, "rank"_a, py::kw_only(), "ports"_a = 1, "lanes"_a = 1, "regions"_a = 2,
           "early_out"_a = false, "scales"_a = false)
      .def_readonly("rank", &StreamProgram::rank)
      .def_readonly("result_stage", &StreamProgram::result_stage)
      .def_readonly("lanes", &StreamProgram::lanes)
      .def_readonly("regions", &StreamProgram::regions)
      .def_readonly("shadow", &StreamProgram::shadow)
      .def_property_readonly(
          "stages", &stages,
          "Per stage: its region of scratch; its groups, each with its lane, the "
          "stage whose sums it waits for, the groups it waits for (lane, stage), "
          "sends and receives; the groups its sums wait for; sums. See "
          "csrc/gpu/nccl/program.h.")
      .def_property_readonly(
          "result_behind",
          [](const StreamProgram& program) { return groups_of(program.result_behind); },
          "The last groups that touch home: (lane, stage).");

  py::class_<StreamTicket, std::shared_ptr<StreamTicket>>(m, "StreamTicket",
                                                          "One collective, queued.")
      .def_readonly("number", &StreamTicket::number);

  py::class_<StreamExecutor, std::shared_ptr<StreamExecutor>>(
      m, "StreamExecutor", "Runs stream programs on one GPU, over NCCL.")
      .def(py::init(&make_executor), "library"_a, "nccl"_a, "device"_a, "rank"_a, "ranks"_a,
           "unique_ids"_a, "timeout_s"_a)
      .def("connect", &StreamExecutor::connect, "timeout_s"_a, NoGil())
      .def(
          "submit",
          [](StreamExecutor& executor, std::shared_ptr<StreamProgram> program, Address home,
             std::size_t count, const std::string& dtype, const std::string& op, Address stream,
             double timeout_s) {
            auto ticket = executor.arrive(
                {at(home), count, find_dtype(dtype), find_op(op), at(stream), timeout_s});
            try {
              executor.queue(*ticket, std::move(program));
            } catch (...) {
              executor.withdraw(*ticket);
              throw;
            }
            return ticket;
          },
          "program"_a, "home"_a, "count"_a, "dtype"_a, "op"_a, "stream"_a, "timeout_s"_a, NoGil())
      .def(
          "join",
          [](StreamExecutor& executor, StreamTicket& ticket, Address stream) {
            executor.join(ticket, at(stream));
          },
          "ticket"_a, "stream"_a, NoGil())
      .def("wait", &wait_for<StreamExecutor, StreamTicket>, "ticket"_a)
      .def("has_result", &StreamExecutor::wait, "ticket"_a, "within_s"_a, NoGil())
      .def("check", &StreamExecutor::throw_if_failed, NoGil())
      .def(
          "abort",
          [](StreamExecutor& executor, const std::string& why) {
            executor.abort(std::make_exception_ptr(TransportError(
                concat("rank ", executor.rank(), ": aborted: ", why), executor.rank())));
          },
          "why"_a, NoGil())
      .def("close", &StreamExecutor::close, "timeout_s"_a, NoGil())
      .def_property_readonly("memory_bytes", &StreamExecutor::memory_bytes)
      .def_property_readonly("events", &StreamExecutor::events);
  bind_calls(m);
}

}  // namespace patallreduce::bindings
