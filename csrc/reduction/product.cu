// The kernels of Op::prod.
#include "reduction/kernel.cuh"

namespace patallreduce {

Kernel product_kernel(Dtype dtype) { return combine_kernel<Op::prod>(dtype); }

}  // namespace patallreduce
