// A GPU and NCCL in host memory, as parts of this program: so the sanitizers see them too.
#pragma once

#include "reduction/cuda.h"
#include "streams/nccl_library.h"

// What tests of Python reach by ctypes.
extern "C" int played_count();
extern "C" int played_sleep(void* stream, int milliseconds);
extern "C" int played_break(const char* id, int rank);

namespace patallreduce::native {

const CudaLibrary& played_library();
const NcclLibrary& played_nccl();

}  // namespace patallreduce::native
