// Reductions by raw address, for tests and benchmarks: the caller keeps the memory alive and
// guarantees its size.
#include "reduction/reduction.h"

#include "bindings/address.h"
#include "bindings/bindings.h"
#include "reduction/float_mode.h"

namespace patallreduce::bindings {

using reduction::combine;
using reduction::divide;
using reduction::find_dtype;
using reduction::find_op;
using reduction::flushes_subnormals;
using reduction::scale_copy;
using reduction::vector_level;

namespace {

using namespace pybind11::literals;
void combine_at(Address out, Address also, Address received, Address held, std::size_t count,
                const std::string& dtype, const std::string& op, double scale) {
  combine(at(out), at(also), at(received), at(held), count, find_dtype(dtype), find_op(op), scale);
}

void scale_copy_at(Address out, Address in, std::size_t count, const std::string& dtype,
                   double scale) {
  scale_copy(at(out), at(in), count, find_dtype(dtype), scale);
}

void divide_at(Address data, std::size_t count, const std::string& dtype, std::int64_t divisor) {
  divide(at(data), count, find_dtype(dtype), divisor);
}

}  // namespace

void bind_reduction(py::module_& m) {
  const py::call_guard<py::gil_scoped_release> no_gil;
  m.def("combine", &combine_at, "out"_a, "also"_a, "received"_a, "held"_a, "count"_a, "dtype"_a,
        "op"_a, "scale"_a = 1.0, no_gil,
        "out[i] = also[i] = received[i] OP (held[i] * scale). Addresses; also may be 0.");
  m.def("scale_copy", &scale_copy_at, "out"_a, "source"_a, "count"_a, "dtype"_a, "scale"_a, no_gil,
        "out[i] = source[i] * scale, rounded to dtype; integers are copied.");
  m.def("divide", &divide_at, "data"_a, "count"_a, "dtype"_a, "divisor"_a, no_gil,
        "data[i] /= divisor, truncating toward zero; floats are left alone.");
  m.def("flushes_subnormals", &flushes_subnormals,
        "Whether the calling thread's own arithmetic flushes subnormals to zero.");
  m.def("vector_level", &vector_level, "avx512, avx2 or portable: what the kernels use here.");
}

}  // namespace patallreduce::bindings
