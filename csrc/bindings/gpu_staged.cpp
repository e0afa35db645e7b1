// Collectives on a GPU's memory over an engine, by raw address.
#include <pybind11/stl.h>

#include "bindings/address.h"
#include "bindings/bindings.h"
#include "bindings/owned.h"
#include "bindings/waiting.h"
#include "gpu/staged/carrier.h"

namespace patallreduce::bindings {

using executor::Call;
using gpu::Device;
using gpu::StagedCarrier;
using gpu::StagedTicket;
using reduction::CudaLibrary;

namespace {

using namespace pybind11::literals;

std::shared_ptr<StagedCarrier> make_staged_carrier(std::shared_ptr<Engine> engine,
                                                   const std::string& library, int device,
                                                   bool direct) {
  py::gil_scoped_release release;
  auto gpu = std::make_shared<const Device>(CudaLibrary::open(library), device);
  return make_owned<StagedCarrier>(std::move(engine), std::move(gpu), direct);
}

void join(StagedCarrier& carrier, const StagedTicket& ticket, Address stream) {
  until([&](double slice_s) { return carrier.joinable(ticket, slice_s); });
  py::gil_scoped_release release;
  carrier.join(ticket, at(stream));
}

}  // namespace

void bind_gpu_staged(py::module_& m) {
  using NoGil = py::call_guard<py::gil_scoped_release>;
  py::class_<StagedTicket, std::shared_ptr<StagedTicket>>(m, "StagedTicket",
                                                          "One collective of a StagedCarrier.")
      .def_readonly("number", &StagedTicket::number)
      .def_property_readonly("engine_ticket", &StagedTicket::engine_ticket,
                             "None until the contribution is there.")
      .def_property_readonly("arrival_s", &StagedTicket::arrival_s,
                             "When the contribution was there; 0 before.")
      .def_property_readonly("finish_s", &StagedTicket::finish_s,
                             "When the result was there, or the collective failed; 0 before.")
      .def("check", &StagedTicket::check, "Raises what the collective failed with, if it did.");

  py::class_<StagedCarrier, std::shared_ptr<StagedCarrier>>(
      m, "StagedCarrier",
      "Carries an engine's collectives on a GPU's memory, queued like work of a stream.")
      .def(py::init(&make_staged_carrier), "engine"_a, "library"_a, "device"_a, "direct"_a)
      .def(
          "submit",
          [](StagedCarrier& carrier, Address data, const Call& call, Address stream,
             double timeout_s,
             bool queued) { return carrier.submit(at(data), call, at(stream), timeout_s, queued); },
          "data"_a, "call"_a, "stream"_a, "timeout_s"_a, "queued"_a = true, NoGil(),
          "Returns at once; next_done() returns it if queued.")
      .def("next_done", &StagedCarrier::next_done, "timeout_s"_a, NoGil())
      .def("join", &join, "ticket"_a, "stream"_a,
           "Work queued on the stream from now on runs after the result.")
      .def(
          "wait",
          [](StagedCarrier& carrier, const StagedTicket& ticket) {
            until([&](double slice_s) { return carrier.wait(ticket, slice_s); });
          },
          "ticket"_a)
      .def("has_result", &StagedCarrier::wait, "ticket"_a, "within_s"_a, NoGil())
      .def("abort", &StagedCarrier::abort, "why"_a, NoGil())
      .def("close", &StagedCarrier::close, "timeout_s"_a, NoGil())
      .def_property_readonly("memory_bytes", &StagedCarrier::memory_bytes)
      .def_property_readonly("events", &StagedCarrier::events);
}

}  // namespace patallreduce::bindings
