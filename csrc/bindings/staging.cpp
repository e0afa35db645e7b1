// Collectives on a GPU's memory over an engine, by raw address.
#include "gpu/staged/staging.h"

#include <pybind11/stl.h>

#include "bindings/bindings.h"
#include "bindings/owned.h"

namespace patallreduce::bindings {

using executor::Call;
using executor::Engine;
using gpu::StagedTicket;
using gpu::Staging;
using gpu::StreamDevice;
using reduction::CudaLibrary;
using schedule::Step;

namespace {

using namespace pybind11::literals;
using Address = std::uintptr_t;

constexpr double slice_s = 0.05;  // signals are looked for this often while Python waits

void* at(Address address) { return reinterpret_cast<void*>(address); }

std::shared_ptr<Staging> make_staging(std::shared_ptr<Engine> engine, const std::string& library,
                                      int device, bool direct) {
  py::gil_scoped_release release;
  auto gpu = std::make_shared<const StreamDevice>(CudaLibrary::open(library), device);
  return make_owned<Staging>(std::move(engine), std::move(gpu), direct);
}

// With the GIL released while `step(slice_s)` is false.
template <typename Step>
void until(const Step& step) {
  for (bool done = false; !done;) {
    {
      py::gil_scoped_release release;
      done = step(slice_s);
    }
    if (!done && PyErr_CheckSignals() != 0) throw py::error_already_set();
  }
}

void join(Staging& staging, const StagedTicket& ticket, Address stream) {
  until([&](double slice) { return staging.joinable(ticket, slice); });
  py::gil_scoped_release release;
  staging.join(ticket, at(stream));
}

}  // namespace

void bind_staging(py::module_& m) {
  using NoGil = py::call_guard<py::gil_scoped_release>;
  py::class_<StagedTicket, std::shared_ptr<StagedTicket>>(m, "StagedTicket",
                                                          "One collective of a Staging.")
      .def_readonly("number", &StagedTicket::number)
      .def_property_readonly("engine_ticket", &StagedTicket::engine_ticket,
                             "None until the contribution is there.")
      .def_property_readonly("arrival_s", &StagedTicket::arrival_s,
                             "When the contribution was there; 0 before.")
      .def_property_readonly("finish_s", &StagedTicket::finish_s,
                             "When the result was there, or it failed; 0 before.")
      .def("check", &StagedTicket::check, "Raises what the collective failed with, if it did.");

  py::class_<Staging, std::shared_ptr<Staging>>(
      m, "Staging", "An engine's collectives on a GPU's memory, queued like work of a stream.")
      .def(py::init(&make_staging), "engine"_a, "library"_a, "device"_a, "direct"_a)
      .def(
          "submit",
          [](Staging& staging, Address data, const Call& call, Address stream, double timeout_s,
             bool queued) { return staging.submit(at(data), call, at(stream), timeout_s, queued); },
          "data"_a, "call"_a, "stream"_a, "timeout_s"_a, "queued"_a = true, NoGil(),
          "Returns at once; next_done() returns it if queued.")
      .def("next_done", &Staging::next_done, "timeout_s"_a, NoGil())
      .def("join", &join, "ticket"_a, "stream"_a,
           "Work queued on the stream from now on runs after the result.")
      .def(
          "wait",
          [](Staging& staging, const StagedTicket& ticket) {
            until([&](double slice) { return staging.wait(ticket, slice); });
          },
          "ticket"_a)
      .def("has_result", &Staging::wait, "ticket"_a, "within_s"_a, NoGil())
      .def("abort", &Staging::abort, "why"_a, NoGil())
      .def("close", &Staging::close, "timeout_s"_a, NoGil())
      .def_property_readonly("memory_bytes", &Staging::memory_bytes)
      .def_property_readonly("events", &Staging::events);
}

}  // namespace patallreduce::bindings
