// What happened, as plain data for Python.
#pragma once

#include <pybind11/pybind11.h>

#include "monitor/records.h"

namespace patallreduce::bindings {

namespace py = pybind11;

py::dict as_dict(const monitor::IterationRecord& record);
py::dict as_dict(const monitor::Host& host);

}  // namespace patallreduce::bindings
