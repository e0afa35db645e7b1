// Fakes of a GPU and of NCCL, as parts of this program: so the sanitizers see them too.
#pragma once

#include <atomic>

#include "gpu/nccl/library.h"
#include "reduction/cuda.h"

// What tests of Python reach by ctypes.
extern "C" int fake_count();
extern "C" int fake_sleep(void* stream, int milliseconds);
extern "C" int fake_hold(void* stream, const std::atomic<bool>* released);
extern "C" int fake_break(const char* id, int rank);

namespace patallreduce::native {

using gpu::NcclLibrary;
using reduction::CudaLibrary;

const CudaLibrary& fake_cuda();
const NcclLibrary& fake_nccl();

}  // namespace patallreduce::native
