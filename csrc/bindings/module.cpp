#include "bindings/bindings.h"

PYBIND11_MODULE(_core, m) {
  m.doc() = "Native core of patallreduce: schedules, reductions, transports, executor.";
  patallreduce::bind_errors(m);
  patallreduce::bind_schedule(m);
  patallreduce::bind_reduction(m);
  patallreduce::bind_transport(m);
  patallreduce::bind_executor(m);
}
