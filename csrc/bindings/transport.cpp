#include "transport/transport.h"

#include <pybind11/stl.h>

#include <cstring>

#include "bindings/bindings.h"
#include "errors.h"
#include "transport/delayed.h"
#include "transport/loopback.h"
#include "transport/ucx.h"
#include "transport/ucx_context.h"

namespace patallreduce::bindings {

using transport::Delayed;
using transport::Events;
using transport::Key;
using transport::Loopback;
using transport::LoopbackHub;
using transport::Token;
using transport::Transport;
using transport::Ucx;
using transport::ucx_memory_types;
using transport::ucx_resources;
using transport::UcxChoice;
using transport::UcxLibrary;

using namespace pybind11::literals;

void bind_transport(py::module_& m) {
  py::class_<Transport, std::shared_ptr<Transport>>(m, "Transport", "Moves bytes between ranks.")
      .def_property_readonly("name", &Transport::name)
      .def_property_readonly("rank", &Transport::rank)
      .def_property_readonly("ranks", &Transport::ranks)
      // The rest of the interface, for the contract test; an engine is the only other caller.
      .def("send",
           [](Transport& t, int to, std::uint64_t tag, std::uintptr_t data, std::size_t bytes,
              Token token) { t.send(to, tag, reinterpret_cast<void*>(data), bytes, token); })
      .def("recv",
           [](Transport& t, int from, std::uint64_t tag, std::uintptr_t data, std::size_t bytes,
              Token token) { t.recv(from, tag, reinterpret_cast<void*>(data), bytes, token); })
      .def("control",
           [](Transport& t, int to, const py::bytes& bytes) { t.control(to, std::string(bytes)); })
      .def("progress",
           [](Transport& t) {
             Events events;
             {
               py::gil_scoped_release release;
               t.progress(events);
             }
             py::list control, lost;
             for (const auto& [from, bytes] : events.control)
               control.append(py::make_tuple(from, py::bytes(bytes)));
             for (const auto& [rank, reason] : events.lost)
               lost.append(py::make_tuple(rank, reason));
             return py::make_tuple(events.finished, control, lost);
           })
      .def("arm", &Transport::arm)
      .def("event_fds", &Transport::event_fds)
      .def("abandon", &Transport::abandon, py::call_guard<py::gil_scoped_release>())
      .def("close", &Transport::close, "timeout_s"_a, py::call_guard<py::gil_scoped_release>());

  py::class_<LoopbackHub, std::shared_ptr<LoopbackHub>>(m, "LoopbackHub")
      .def(py::init<int>(), "ranks"_a)
      .def("lose", py::overload_cast<int>(&LoopbackHub::lose), "rank"_a);
  py::class_<Loopback, Transport, std::shared_ptr<Loopback>>(m, "Loopback")
      .def(py::init<std::shared_ptr<LoopbackHub>, int>(), "hub"_a, "rank"_a);

  py::class_<Delayed, Transport, std::shared_ptr<Delayed>>(
      m, "Delayed", "For tests: control messages come late, in order per peer.")
      .def(py::init<std::shared_ptr<Transport>, double, std::uint64_t>(), "transport"_a,
           "max_delay_s"_a, "seed"_a);

  py::class_<Ucx, Transport, std::shared_ptr<Ucx>>(m, "Ucx")
      .def(py::init([](const std::string& library, int rank, int ranks, const std::string& bytes,
                       bool secret, std::string transports, std::string net_devices,
                       int connections) {
             py::gil_scoped_release release;
             Key key;
             PATR_CHECK(bytes.size() == 16, std::invalid_argument,
                        "expected a key of 16 bytes, got one of ", bytes.size());
             std::memcpy(&key.low, bytes.data(), 8);
             std::memcpy(&key.high, bytes.data() + 8, 8);
             key.secret = secret;
             return std::make_shared<Ucx>(
                 UcxLibrary::open(library), rank, ranks, key,
                 UcxChoice{std::move(transports), std::move(net_devices), connections});
           }),
           "library"_a, "rank"_a, "ranks"_a, "key"_a, py::kw_only(), "secret"_a = true,
           "transports"_a = "", "net_devices"_a = "", "connections"_a = 1)
      .def("address", [](const Ucx& ucx) { return py::bytes(ucx.address()); })
      .def("connect",
           [](Ucx& ucx, const std::vector<py::bytes>& addresses) {
             ucx.connect(std::vector<std::string>(addresses.begin(), addresses.end()));
           })
      .def("readable", &Ucx::readable)
      .def("set_direct", &Ucx::set_direct, "ranks"_a)
      .def("close_in_child", &Ucx::close_in_child);

  m.def(
      "ucx_library",
      [](const std::string& library) {
        const UcxLibrary& ucx = UcxLibrary::open(library);
        return py::make_tuple(ucx.path, ucx.version);
      },
      "library"_a, "Path and version of the UCX opened; the first call decides which.");
  m.def(
      "ucx_memory_types",
      [](const std::string& library) { return ucx_memory_types(UcxLibrary::open(library)); },
      "library"_a);
  m.def(
      "ucx_resources",
      [](const std::string& library) { return ucx_resources(UcxLibrary::open(library)); },
      "library"_a, "Transports and devices, e.g. tcp/eth0.");
}

}  // namespace patallreduce::bindings
