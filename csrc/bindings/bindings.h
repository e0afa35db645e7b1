// One bind function per folder of the core.
#pragma once

#include <pybind11/pybind11.h>

namespace patallreduce::bindings {

namespace py = pybind11;

void bind_errors(py::module_& m);
void bind_schedule(py::module_& m);
void bind_algorithms(py::module_& m);
void bind_reduction(py::module_& m);
void bind_cuda(py::module_& m);
void bind_transport(py::module_& m);
void bind_executor(py::module_& m);
void bind_gpu_programs(py::module_& m);
void bind_gpu_nccl(py::module_& m);
void bind_gpu_staged(py::module_& m);
void bind_simulation(py::module_& m);
void bind_network(py::module_& m);
void bind_monitor(py::module_& m);
void bind_prediction(py::module_& m);
void bind_tree_sum(py::module_& m);

}  // namespace patallreduce::bindings
