// Reductions on a GPU by raw address, for tests and benchmarks, and what `info` tells of GPUs.
#include "reduction/cuda.h"

#include <pybind11/stl.h>

#include "bindings/address.h"
#include "bindings/bindings.h"

namespace patallreduce::bindings {

using reduction::CudaLibrary;
using reduction::CudaReduction;
using reduction::find_dtype;
using reduction::find_op;

namespace {

using namespace pybind11::literals;
}  // namespace

void bind_cuda(py::module_& m) {
  using NoGil = py::call_guard<py::gil_scoped_release>;
  m.def(
      "cuda_library",
      [](const std::string& path) {
        const CudaLibrary& library = CudaLibrary::open(path);
        return std::make_pair(library.path, std::string(library.patr_cuda_build()));
      },
      "library"_a, NoGil(), "Path of the kernels opened, and for what they were built.");
  m.def(
      "cuda_device_count",
      [](const std::string& path) { return CudaLibrary::open(path).device_count(); }, "library"_a,
      NoGil(), "Devices that CUDA sees; CudaError says why there is none.");

  py::class_<CudaReduction>(m, "CudaReduction", "The reductions on one GPU, in stream order.")
      .def(py::init([](const std::string& path, int device, int blocks_per_multiprocessor) {
             py::gil_scoped_release release;
             return std::make_unique<CudaReduction>(CudaLibrary::open(path), device,
                                                    blocks_per_multiprocessor);
           }),
           "library"_a, "device"_a,
           "blocks_per_multiprocessor"_a = CudaReduction::default_blocks_per_multiprocessor)
      .def_property_readonly("device", &CudaReduction::device)
      .def_property_readonly("name", &CudaReduction::name)
      .def_property_readonly("capability", &CudaReduction::capability)
      .def_property_readonly("multiprocessors", &CudaReduction::multiprocessors)
      .def(
          "combine",
          [](const CudaReduction& gpu, Address out, Address also, Address received, Address held,
             std::size_t count, const std::string& dtype, const std::string& op, double scale,
             Address stream) {
            gpu.combine(at(out), at(also), at(received), at(held), count, find_dtype(dtype),
                        find_op(op), scale, at(stream));
          },
          "out"_a, "also"_a, "received"_a, "held"_a, "count"_a, "dtype"_a, "op"_a, "scale"_a = 1.0,
          "stream"_a = 0, NoGil(), "As combine, on device memory; also may be 0.")
      .def(
          "scale_copy",
          [](const CudaReduction& gpu, Address out, Address in, std::size_t count,
             const std::string& dtype, double scale, Address stream) {
            gpu.scale_copy(at(out), at(in), count, find_dtype(dtype), scale, at(stream));
          },
          "out"_a, "source"_a, "count"_a, "dtype"_a, "scale"_a, "stream"_a = 0, NoGil())
      .def(
          "divide",
          [](const CudaReduction& gpu, Address data, std::size_t count, const std::string& dtype,
             std::int64_t divisor, Address stream) {
            gpu.divide(at(data), count, find_dtype(dtype), divisor, at(stream));
          },
          "data"_a, "count"_a, "dtype"_a, "divisor"_a, "stream"_a = 0, NoGil());
}

}  // namespace patallreduce::bindings
