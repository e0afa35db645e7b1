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
  patallreduce::bind_errors(m);
  patallreduce::bind_schedule(m);
  patallreduce::bind_reduction(m);
  patallreduce::bind_cuda(m);
  patallreduce::bind_transport(m);
  patallreduce::bind_executor(m);
  patallreduce::bind_streams(m);
  patallreduce::bind_staging(m);
  patallreduce::bind_simulation(m);
  patallreduce::bind_monitor(m);
  patallreduce::bind_prediction(m);
  patallreduce::bind_tree_sum(m);
  m.def("build_info", &build_info, "Compiler, language standard, pybind11, date.");
}
