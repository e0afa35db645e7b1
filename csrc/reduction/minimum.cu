// The kernels of Op::min.
#include "reduction/kernel.cuh"

namespace patallreduce {

Kernel minimum_kernel(Dtype dtype) { return combine_kernel<Op::min>(dtype); }

}  // namespace patallreduce
