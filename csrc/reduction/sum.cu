// The kernels of Op::sum and, since avg combines like sum, of Op::avg.
#include "reduction/kernel.cuh"

namespace patallreduce {

Kernel sum_kernel(Dtype dtype) { return combine_kernel<Op::sum>(dtype); }

}  // namespace patallreduce
