// The kernels of Op::max.
#include "reduction/kernel.cuh"

namespace patallreduce {

Kernel maximum_kernel(Dtype dtype) { return combine_kernel<Op::max>(dtype); }

}  // namespace patallreduce
