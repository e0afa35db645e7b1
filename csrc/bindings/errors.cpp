// Maps the core's errors to Python classes: TransportError, TransportTimeout, PeerLostError and
// MismatchError carry the rank they name in `.rank`, CudaError the device in `.device`.
#include "errors.h"

#include <map>

#include "bindings/bindings.h"

namespace patallreduce::bindings {

namespace {

// Leaked on purpose: static destructors run after the interpreter is gone.
struct Classes {
  py::object transport, timeout, lost, mismatch, cuda;
};
Classes* classes = nullptr;

// Attributes, by name; a negative number is none.
void set(const py::object& type, const std::exception& error,
         const std::map<const char*, std::int64_t>& attributes) {
  py::object value = type(error.what());
  for (const auto& [name, number] : attributes)
    value.attr(name) = number < 0 ? py::object(py::none()) : py::object(py::int_(number));
  PyErr_SetObject(type.ptr(), value.ptr());
}

void set(const py::object& type, const TransportError& error) {
  set(type, error, {{"rank", error.rank}, {"completed", error.completed}});
}

}  // namespace

void bind_errors(py::module_& m) {
  py::register_exception<ScheduleError>(m, "ScheduleError", PyExc_ValueError).attr("__doc__") =
      "A schedule, a segment count or arrival times make no sense; the message names the rank.";
  const auto make = [&m](const char* name, const py::object& bases, const char* doc) {
    const std::string path = std::string("patallreduce.") + name;
    py::object type = py::reinterpret_steal<py::object>(
        PyErr_NewExceptionWithDoc(path.c_str(), doc, bases.ptr(), nullptr));
    m.attr(name) = type;
    return type;
  };
  const auto builtin = [](PyObject* type) { return py::reinterpret_borrow<py::object>(type); };
  classes = new Classes;
  classes->transport = make("TransportError", builtin(PyExc_RuntimeError),
                            "A peer or the network failed; the communicator is dead. `rank`: the "
                            "rank it names, or None. `completed`: how many of the communicator's "
                            "collectives, from the first on, all surviving ranks have the results "
                            "of, or None.");
  classes->timeout =
      make("TransportTimeout", py::make_tuple(classes->transport, builtin(PyExc_TimeoutError)),
           "A deadline passed; `rank` did not come or answer.");
  classes->lost = make("PeerLostError", py::make_tuple(classes->transport),
                       "The process of `rank` died or left.");
  classes->mismatch = make("MismatchError", py::make_tuple(classes->transport),
                           "Ranks called one collective with different arguments.");
  classes->cuda = make("CudaError", builtin(PyExc_RuntimeError),
                       "The GPU kernels, CUDA or a device failed. `device`: its ordinal, or None.");
  classes->transport.attr("rank") = py::none();
  classes->transport.attr("completed") = py::none();
  classes->cuda.attr("device") = py::none();
  py::register_exception_translator([](std::exception_ptr pointer) {
    if (!pointer) return;
    try {
      std::rethrow_exception(pointer);
    } catch (const TransportTimeout& error) {
      set(classes->timeout, error);
    } catch (const PeerLostError& error) {
      set(classes->lost, error);
    } catch (const MismatchError& error) {
      set(classes->mismatch, error);
    } catch (const TransportError& error) {
      set(classes->transport, error);
    } catch (const CudaError& error) {
      set(classes->cuda, error, {{"device", error.device}});
    }
  });
}

}  // namespace patallreduce::bindings
