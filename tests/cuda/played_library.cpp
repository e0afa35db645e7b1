// The kernels' library without a GPU: every thread's code runs on the processor, one thread after
// the other, in host memory. What the core and the tests see of it is the real library's interface.
#include <algorithm>
#include <cstring>

#include "reduction/cuda_interface.h"
#include "reduction/gpu_kernel.h"

using namespace patallreduce;

namespace {

constexpr int no_kernel_image = 209, launch_failure = 719;
constexpr int threads_per_block = 32;  // so few that each thread has several vectors, and some none

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

std::size_t threads_of(const PatrCudaLaunch* launch) {
  return std::size_t(launch->blocks) * threads_per_block;
}

}  // namespace

int patr_cuda_interface() { return patr_cuda_interface_version; }
const char* patr_cuda_build() { return "this processor"; }
const char* patr_cuda_error_name(int error) {
  return error == no_kernel_image ? "cudaErrorNoKernelImageForDevice" : "cudaErrorLaunchFailure";
}
const char* patr_cuda_error_text(int) { return "played error"; }

int patr_cuda_versions(int* driver, int* kernels) {
  *driver = *kernels = 13000;
  return 0;
}

int patr_cuda_device_count(int* count) {
  *count = 2;
  return 0;
}

// The second device is too old.
int patr_cuda_device(int device, PatrCudaDevice* facts) {
  std::strcpy(facts->name, device == 0 ? "Player" : "Relic");
  facts->major = device == 0 ? 9 : 3;
  facts->minor = 0;
  facts->multiprocessors = 10;
  return device == 0 ? 0 : no_kernel_image;
}

int patr_cuda_combine(const PatrCudaLaunch* launch, void* out, void* also, const void* received,
                      const void* held, std::size_t count, int dtype, int op, double scale) {
  constexpr void (*functions[dtype_count])(Work, Op, std::size_t) = {
      run_op<Dtype::float32>,  run_op<Dtype::float64>, run_op<Dtype::float16>,
      run_op<Dtype::bfloat16>, run_op<Dtype::int32>,   run_op<Dtype::int64>,
      run_op<Dtype::uint8>,
  };
  if (launch->stream != nullptr) return launch_failure;  // there is only the default one
  functions[dtype]({out, also, received, held, count, scale, 1}, Op(op), threads_of(launch));
  return 0;
}

int patr_cuda_scale_copy(const PatrCudaLaunch* launch, void* out, const void* in, std::size_t count,
                         int dtype, double scale) {
  constexpr void (*functions[])(Work, std::size_t) = {
      run<Scale<Dtype::float32>>, run<Scale<Dtype::float64>>, run<Scale<Dtype::float16>>,
      run<Scale<Dtype::bfloat16>>};
  if (launch->stream != nullptr) return launch_failure;
  functions[dtype]({out, nullptr, nullptr, in, count, scale, 1}, threads_of(launch));
  return 0;
}

int patr_cuda_divide(const PatrCudaLaunch* launch, void* data, std::size_t count, int dtype,
                     std::int64_t divisor) {
  constexpr void (*functions[])(Work, std::size_t) = {
      run<Divide<Dtype::int32>>, run<Divide<Dtype::int64>>, run<Divide<Dtype::uint8>>};
  if (launch->stream != nullptr) return launch_failure;
  functions[dtype - int(Dtype::int32)]({data, nullptr, nullptr, data, count, 1, divisor},
                                       threads_of(launch));
  return 0;
}
