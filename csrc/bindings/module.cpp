#include <string>

#include "bindings/bindings.h"

namespace {

std::string build_info() {
  return std::string("compiler ") + __VERSION__ + ", C++" +
         std::to_string(__cplusplus / 100 % 100) + ", pybind11 " +
         std::to_string(PYBIND11_VERSION_MAJOR) + "." + std::to_string(PYBIND11_VERSION_MINOR) +
         ", " __DATE__;
}

}  // namespace

PYBIND11_MODULE(_core, m) {
  m.doc() = "Native core of patallreduce: schedules, reductions, transports, executor.";
  patallreduce::bindings::bind_errors(m);
  patallreduce::bindings::bind_schedule(m);
  patallreduce::bindings::bind_reduction(m);
  patallreduce::bindings::bind_cuda(m);
  patallreduce::bindings::bind_transport(m);
  patallreduce::bindings::bind_executor(m);
  patallreduce::bindings::bind_algorithms(m);
  patallreduce::bindings::bind_gpu_programs(m);
  patallreduce::bindings::bind_gpu_nccl(m);
  patallreduce::bindings::bind_gpu_staged(m);
  patallreduce::bindings::bind_simulation(m);
  patallreduce::bindings::bind_monitor(m);
  patallreduce::bindings::bind_prediction(m);
  patallreduce::bindings::bind_tree_sum(m);
  m.def("build_info", &build_info, "Compiler, language standard, pybind11, date.");
}
