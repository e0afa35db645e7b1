// STREAM's triad, a[i] = b[i] + s * c[i]: the yardstick of reduction.py, which builds it.
#include <pybind11/pybind11.h>

#include <cstddef>
#include <cstdint>

namespace {

void triad(std::uintptr_t a, std::uintptr_t b, std::uintptr_t c, std::size_t count, float s) {
  auto* const to = reinterpret_cast<float*>(a);
  auto* const left = reinterpret_cast<const float*>(b);
  auto* const right = reinterpret_cast<const float*>(c);
#pragma GCC ivdep
  for (std::size_t i = 0; i < count; ++i) to[i] = left[i] + s * right[i];
}

}  // namespace

PYBIND11_MODULE(triad, m) {
  m.def("triad", &triad, pybind11::call_guard<pybind11::gil_scoped_release>());
}
