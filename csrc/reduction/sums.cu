// The kernels of Op::sum, with which Op::avg combines, and Op::prod.
#include "reduction/kernel.cuh"

namespace patallreduce::reduction {

Kernel sum_kernel(Dtype dtype) { return combine_kernel<Op::sum>(dtype); }
Kernel product_kernel(Dtype dtype) { return combine_kernel<Op::prod>(dtype); }

}  // namespace patallreduce::reduction
