// gpu_kernel.h's threads as kernels: one template, an instance per dtype and operation.
#pragma once

#include <cuda_runtime.h>

#include "reduction/gpu_kernel.h"

namespace patallreduce::reduction {

constexpr int threads_per_block = 256;

template <typename Function>
__global__ void __launch_bounds__(threads_per_block) element_wise(const Work work) {
  run_thread<Function>(work, blockIdx.x * std::size_t(blockDim.x) + threadIdx.x,
                       gridDim.x * std::size_t(blockDim.x));
}

using Kernel = void (*)(Work);

// In sums.cu and extremes.cu, which compile side by side: more files would take less time each and
// more together, of which half goes into reading CUDA's headers once per architecture.
Kernel sum_kernel(Dtype dtype);
Kernel product_kernel(Dtype dtype);
Kernel minimum_kernel(Dtype dtype);
Kernel maximum_kernel(Dtype dtype);

template <Op op>
Kernel combine_kernel(Dtype dtype) {
  constexpr Kernel kernels[dtype_count] = {
      element_wise<Combine<Dtype::float32, op>>, element_wise<Combine<Dtype::float64, op>>,
      element_wise<Combine<Dtype::float16, op>>, element_wise<Combine<Dtype::bfloat16, op>>,
      element_wise<Combine<Dtype::int32, op>>,   element_wise<Combine<Dtype::int64, op>>,
      element_wise<Combine<Dtype::uint8, op>>,
  };
  return kernels[int(dtype)];
}

}  // namespace patallreduce::reduction
