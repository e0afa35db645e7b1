// The GPU kernels' element operations as a loop on the processor, for test_elements.py.
#include <cstddef>

#include "reduction/gpu_element.h"

using namespace patallreduce;

namespace {

template <Dtype dtype, Op op>
void loop(void* out, const void* received, const void* held, std::size_t count, double scale) {
  using Stored = StoredOf<dtype>;
  for (std::size_t i = 0; i < count; ++i) {
    Stored b = static_cast<const Stored*>(held)[i];
    if constexpr (!std::is_integral_v<ValueOf<dtype>>)
      if (scale != 1) b = scale_element<dtype>(b, ValueOf<dtype>(scale));
    static_cast<Stored*>(out)[i] =
        combine_element<dtype, op>(static_cast<const Stored*>(received)[i], b);
  }
}

using Loop = void (*)(void*, const void*, const void*, std::size_t, double);

template <Dtype dtype>
Loop loop_of(Op op) {
  if (op == Op::min) return loop<dtype, Op::min>;
  if (op == Op::max) return loop<dtype, Op::max>;
  if (op == Op::prod) return loop<dtype, Op::prod>;
  return loop<dtype, Op::sum>;
}

}  // namespace

extern "C" void combine_elements(void* out, const void* received, const void* held,
                                 std::size_t count, int dtype, int op, double scale) {
  constexpr Loop (*loops[dtype_count])(Op) = {
      loop_of<Dtype::float32>,  loop_of<Dtype::float64>, loop_of<Dtype::float16>,
      loop_of<Dtype::bfloat16>, loop_of<Dtype::int32>,   loop_of<Dtype::int64>,
      loop_of<Dtype::uint8>,
  };
  loops[dtype](Op(op))(out, received, held, count, scale);
}
