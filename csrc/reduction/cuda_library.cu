// The exported functions: choose a kernel, split the elements, launch.
#include <algorithm>
#include <cstring>

#include "reduction/cuda_interface.h"
#include "reduction/current_device.cuh"
#include "reduction/kernel.cuh"

namespace patallreduce::reduction {

namespace {

// In the order of the enumerators; size_of is the core's, which this library does not link.
constexpr std::size_t element_bytes_of[dtype_count] = {
    sizeof(StoredOf<Dtype::float32>), sizeof(StoredOf<Dtype::float64>),
    sizeof(StoredOf<Dtype::float16>), sizeof(StoredOf<Dtype::bfloat16>),
    sizeof(StoredOf<Dtype::int32>),   sizeof(StoredOf<Dtype::int64>),
    sizeof(StoredOf<Dtype::uint8>),
};

cudaError_t launch(const PatrCudaLaunch& where, Kernel kernel, Work work, Dtype dtype) {
  if (work.count == 0) return cudaSuccess;
  const std::size_t threads = split(work, element_bytes_of[int(dtype)]);
  const std::size_t blocks = (threads + threads_per_block - 1) / threads_per_block;
  const CurrentDevice current(where.device);
  if (current.error != cudaSuccess) return current.error;
  void* arguments[] = {&work};
  return cudaLaunchKernel(reinterpret_cast<const void*>(kernel),
                          dim3(unsigned(std::min(blocks, std::size_t(where.blocks)))),
                          dim3(threads_per_block), arguments, 0,
                          static_cast<cudaStream_t>(where.stream));
}

Kernel combine_kernel_of(Op op, Dtype dtype) {
  if (op == Op::min) return minimum_kernel(dtype);
  if (op == Op::max) return maximum_kernel(dtype);
  if (op == Op::prod) return product_kernel(dtype);
  return sum_kernel(dtype);
}

// Null for integers, which ignore scale.
Kernel scale_kernel(Dtype dtype) {
  if (dtype == Dtype::float32) return element_wise<Scale<Dtype::float32>>;
  if (dtype == Dtype::float64) return element_wise<Scale<Dtype::float64>>;
  if (dtype == Dtype::float16) return element_wise<Scale<Dtype::float16>>;
  if (dtype == Dtype::bfloat16) return element_wise<Scale<Dtype::bfloat16>>;
  return nullptr;
}

// Null for floats, which are not divided.
Kernel divide_kernel(Dtype dtype) {
  if (dtype == Dtype::int32) return element_wise<Divide<Dtype::int32>>;
  if (dtype == Dtype::int64) return element_wise<Divide<Dtype::int64>>;
  if (dtype == Dtype::uint8) return element_wise<Divide<Dtype::uint8>>;
  return nullptr;
}

// CUDA loads a kernel at its first use, for which it may wait until the device is idle: in the
// middle of a collective that would be for another rank. So all are loaded beforehand: to ask for
// attributes does that as of today, and to launch them, without elements, for certain.
cudaError_t load_kernels(cudaStream_t stream) {
  cudaFuncAttributes attributes;
  Work nothing{};
  void* arguments[] = {&nothing};
  for (int i = 0; i < dtype_count; ++i) {
    const Dtype dtype = Dtype(i);
    for (const Kernel kernel : {sum_kernel(dtype), product_kernel(dtype), minimum_kernel(dtype),
                                maximum_kernel(dtype), scale_kernel(dtype), divide_kernel(dtype)}) {
      if (kernel == nullptr) continue;
      const void* const function = reinterpret_cast<const void*>(kernel);
      if (const cudaError_t error = cudaFuncGetAttributes(&attributes, function)) return error;
      if (const cudaError_t error =
              cudaLaunchKernel(function, dim3(1), dim3(threads_per_block), arguments, 0, stream))
        return error;
    }
  }
  return cudaStreamSynchronize(stream);
}

}  // namespace

}  // namespace patallreduce::reduction

using namespace patallreduce::reduction;

int patr_cuda_interface() { return patr_cuda_interface_version; }

// PATR_CUDA_BUILD: setup.py, which alone knows the list.
const char* patr_cuda_build() { return PATR_CUDA_BUILD; }

const char* patr_cuda_error_name(int error) { return cudaGetErrorName(cudaError_t(error)); }
const char* patr_cuda_error_text(int error) { return cudaGetErrorString(cudaError_t(error)); }

int patr_cuda_versions(int* driver, int* kernels) {
  *kernels = CUDART_VERSION;
  return cudaDriverGetVersion(driver);
}

int patr_cuda_device_count(int* count) { return cudaGetDeviceCount(count); }

int patr_cuda_device(int device, PatrCudaDevice* facts) {
  cudaDeviceProp properties;
  if (const cudaError_t error = cudaGetDeviceProperties(&properties, device)) return error;
  std::strncpy(facts->name, properties.name, sizeof(facts->name) - 1);
  facts->name[sizeof(facts->name) - 1] = '\0';
  facts->major = properties.major;
  facts->minor = properties.minor;
  facts->multiprocessors = properties.multiProcessorCount;
  const CurrentDevice current(device);
  if (current.error != cudaSuccess) return current.error;
  const Relaxed relaxed;  // loading is such a call
  cudaStream_t stream = nullptr;
  if (const cudaError_t error = cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking))
    return error;
  const cudaError_t error = load_kernels(stream);
  cudaStreamDestroy(stream);
  return error;
}

int patr_cuda_combine(const PatrCudaLaunch* where, void* out, void* also, const void* received,
                      const void* held, std::size_t count, int dtype, int op, double scale) {
  const Work work{out, also, received, held, count, scale, 1};
  return launch(*where, combine_kernel_of(Op(op), Dtype(dtype)), work, Dtype(dtype));
}

int patr_cuda_scale_copy(const PatrCudaLaunch* where, void* out, const void* in, std::size_t count,
                         int dtype, double scale) {
  const Kernel kernel = scale == 1 ? nullptr : scale_kernel(Dtype(dtype));
  if (kernel)
    return launch(*where, kernel, {out, nullptr, nullptr, in, count, scale, 1}, Dtype(dtype));
  if (out == in || count == 0) return cudaSuccess;
  const CurrentDevice current(where->device);
  if (current.error != cudaSuccess) return current.error;
  return cudaMemcpyAsync(out, in, count * element_bytes_of[dtype], cudaMemcpyDeviceToDevice,
                         static_cast<cudaStream_t>(where->stream));
}

int patr_cuda_divide(const PatrCudaLaunch* where, void* data, std::size_t count, int dtype,
                     std::int64_t divisor) {
  const Kernel kernel = divide_kernel(Dtype(dtype));
  if (!kernel || divisor == 1) return cudaSuccess;
  return launch(*where, kernel, {data, nullptr, nullptr, data, count, 1, divisor}, Dtype(dtype));
}
