// The GPU kernels on the processor, one thread after the other, for test_threads.py.
#include <cstddef>

#include "reduction/gpu_kernel.h"

using namespace patallreduce;

namespace {

template <typename Function>
void run(Work work, std::size_t threads) {
  split(work, sizeof(typename Function::Stored));
  // The last first: no result may depend on the order.
  for (std::size_t thread = threads; thread-- > 0;) run_thread<Function>(work, thread, threads);
}

template <Dtype dtype>
void run_op(Work work, Op op, std::size_t threads) {
  if (op == Op::min) return run<Combine<dtype, Op::min>>(work, threads);
  if (op == Op::max) return run<Combine<dtype, Op::max>>(work, threads);
  if (op == Op::prod) return run<Combine<dtype, Op::prod>>(work, threads);
  run<Combine<dtype, Op::sum>>(work, threads);
}

}  // namespace

extern "C" void combine(void* out, void* also, const void* received, const void* held,
                        std::size_t count, int dtype, int op, double scale, std::size_t threads) {
  constexpr void (*functions[dtype_count])(Work, Op, std::size_t) = {
      run_op<Dtype::float32>,  run_op<Dtype::float64>, run_op<Dtype::float16>,
      run_op<Dtype::bfloat16>, run_op<Dtype::int32>,   run_op<Dtype::int64>,
      run_op<Dtype::uint8>,
  };
  functions[dtype]({out, also, received, held, count, scale, 1}, Op(op), threads);
}

extern "C" void scale_copy(void* out, const void* in, std::size_t count, int dtype, double scale,
                           std::size_t threads) {
  constexpr void (*functions[])(Work, std::size_t) = {
      run<Scale<Dtype::float32>>, run<Scale<Dtype::float64>>, run<Scale<Dtype::float16>>,
      run<Scale<Dtype::bfloat16>>};
  functions[dtype]({out, nullptr, nullptr, in, count, scale, 1}, threads);
}

extern "C" void divide(void* data, std::size_t count, int dtype, std::int64_t divisor,
                       std::size_t threads) {
  constexpr void (*functions[])(Work, std::size_t) = {
      run<Divide<Dtype::int32>>, run<Divide<Dtype::int64>>, run<Divide<Dtype::uint8>>};
  functions[dtype - int(Dtype::int32)]({data, nullptr, nullptr, data, count, 1, divisor}, threads);
}
