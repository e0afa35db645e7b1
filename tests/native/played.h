// A GPU and NCCL in host memory, as parts of this program: so the sanitizers see them too.
#pragma once

#include "gpu/nccl/nccl_library.h"
#include "reduction/cuda.h"

// What tests of Python reach by ctypes.
extern "C" int played_count();
extern "C" int played_sleep(void* stream, int milliseconds);
extern "C" int played_break(const char* id, int rank);

namespace patallreduce::native {

using gpu::NcclLibrary;
using reduction::CudaLibrary;

const CudaLibrary& played_library();
const NcclLibrary& played_nccl();

}  // namespace patallreduce::native
