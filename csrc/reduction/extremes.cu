// The kernels of Op::min and Op::max.
#include "reduction/kernel.cuh"

namespace patallreduce::reduction {

Kernel minimum_kernel(Dtype dtype) { return combine_kernel<Op::min>(dtype); }
Kernel maximum_kernel(Dtype dtype) { return combine_kernel<Op::max>(dtype); }

}  // namespace patallreduce::reduction
