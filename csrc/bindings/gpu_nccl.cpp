// Collectives on a GPU's streams over NCCL, by raw address.
#include <pybind11/stl.h>

#include "algorithms/resolve.h"
#include "bindings/address.h"
#include "bindings/bindings.h"
#include "bindings/owned.h"
#include "bindings/waiting.h"
#include "clock.h"
#include "errors.h"
#include "gpu/nccl/carrier.h"

namespace patallreduce::bindings {

using executor::Call;
using executor::raise;
using gpu::Device;
using gpu::NcclCarrier;
using gpu::NcclCommunicator;
using gpu::NcclLibrary;
using gpu::NcclTicket;
using gpu::PatrNcclUniqueId;
using gpu::StreamExecutor;
using gpu::StreamProgram;
using gpu::StreamTicket;
using reduction::CudaLibrary;
using reduction::find_dtype;
using reduction::find_op;

namespace {

using namespace pybind11::literals;
using NoGil = py::call_guard<py::gil_scoped_release>;
using Communicators = std::vector<std::unique_ptr<NcclCommunicator>>;

PatrNcclUniqueId unique_id_of(const std::string& bytes) {
  PatrNcclUniqueId id;
  PATR_CHECK(bytes.size() == sizeof id.internal, std::invalid_argument, "unique id: expected ",
             sizeof id.internal, " bytes, got ", bytes.size());
  bytes.copy(id.internal, sizeof id.internal);
  return id;
}

// One per lane, one after the other, as on all ranks.
Communicators connect_lanes(const Device& device, const std::string& nccl,
                            const std::vector<std::string>& unique_ids, int rank, int ranks,
                            double timeout_s) {
  std::vector<PatrNcclUniqueId> ids;
  for (const std::string& bytes : unique_ids) ids.push_back(unique_id_of(bytes));
  const double deadline_s = now_s() + timeout_s;
  Communicators lanes;
  for (const PatrNcclUniqueId& id : ids) {
    lanes.push_back(std::make_unique<NcclCommunicator>(NcclLibrary::open(nccl), device, id, rank,
                                                       ranks, deadline_s));
  }
  return lanes;
}

std::shared_ptr<StreamExecutor> make_executor(const std::string& library, const std::string& nccl,
                                              int device, int rank, int ranks,
                                              const std::vector<std::string>& unique_ids,
                                              double timeout_s) {
  py::gil_scoped_release release;
  auto gpu = std::make_unique<Device>(CudaLibrary::open(library), device);
  auto lanes = connect_lanes(*gpu, nccl, unique_ids, rank, ranks, timeout_s);
  return make_owned<StreamExecutor>(std::move(gpu), std::move(lanes));
}

std::shared_ptr<NcclCarrier> make_nccl_carrier(std::shared_ptr<Engine> engine,
                                               const std::string& library, const std::string& nccl,
                                               int device,
                                               const std::vector<std::string>& unique_ids,
                                               double timeout_s) {
  py::gil_scoped_release release;
  auto gpu = std::make_unique<Device>(CudaLibrary::open(library), device);
  auto lanes = connect_lanes(*gpu, nccl, unique_ids, engine->rank(), engine->ranks(), timeout_s);
  auto carrier = make_owned<NcclCarrier>(std::move(engine), std::move(gpu), std::move(lanes),
                                         algorithms::schedule_of);
  carrier->connect(timeout_s);
  return carrier;
}

void bind_library(py::module_& m) {
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
}

void bind_executor_of_streams(py::module_& m) {
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
            auto ticket = executor.submit(
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
      .def(
          "wait",
          [](StreamExecutor& executor, StreamTicket& ticket) {
            until([&](double slice_s) { return executor.wait(ticket, slice_s); });
          },
          "ticket"_a)
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
}

void bind_carrier(py::module_& m) {
  py::class_<NcclTicket, std::shared_ptr<NcclTicket>>(m, "NcclTicket",
                                                      "One collective of an NcclCarrier.")
      .def_property_readonly("engine_ticket",
                             [](const NcclTicket& ticket) { return ticket.in_engine; })
      .def_property_readonly(
          "arrival_s", [](const NcclTicket& ticket) { return ticket.on_streams->arrival_s.load(); },
          "When the contribution was seen to be there; 0: not yet.")
      .def_property_readonly(
          "finish_s", [](const NcclTicket& ticket) { return ticket.on_streams->finish_s.load(); },
          "When the result was seen to be there; 0: not yet.")
      .def(
          "check",
          [](const NcclTicket& ticket) {
            const Ticket& in_engine = *ticket.in_engine;
            if (in_engine.done && in_engine.failure) raise(*in_engine.failure);
          },
          "Raises what the collective failed with, if it did.");

  py::class_<NcclCarrier, std::shared_ptr<NcclCarrier>>(
      m, "NcclCarrier",
      "Carries an engine's collectives of a GPU's memory over NCCL, queued like work of a stream.")
      .def(py::init(&make_nccl_carrier), "engine"_a, "library"_a, "nccl"_a, "device"_a,
           "unique_ids"_a, "timeout_s"_a)
      .def(
          "submit",
          [](NcclCarrier& carrier, Address home, const Call& call, Address stream,
             double timeout_s) { return carrier.submit(at(home), call, at(stream), timeout_s); },
          "data"_a, "call"_a, "stream"_a, "timeout_s"_a, NoGil())
      .def("next_done", &NcclCarrier::next_done, "timeout_s"_a, NoGil())
      .def(
          "join",
          [](NcclCarrier& carrier, NcclTicket& ticket, Address stream) {
            carrier.join(ticket, at(stream));
          },
          "ticket"_a, "stream"_a, NoGil())
      .def(
          "wait",
          [](NcclCarrier& carrier, NcclTicket& ticket) {
            until([&](double slice_s) { return carrier.wait(ticket, slice_s); });
          },
          "ticket"_a)
      .def("has_result", &NcclCarrier::wait, "ticket"_a, "within_s"_a, NoGil())
      .def("close", &NcclCarrier::close, "timeout_s"_a, NoGil())
      .def_property_readonly("memory_bytes",
                             [](NcclCarrier& carrier) { return carrier.executor().memory_bytes(); })
      .def_property_readonly("events",
                             [](NcclCarrier& carrier) { return carrier.executor().events(); });
}

}  // namespace

void bind_gpu_nccl(py::module_& m) {
  bind_library(m);
  bind_executor_of_streams(m);
  bind_carrier(m);
}

}  // namespace patallreduce::bindings
