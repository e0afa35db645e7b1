#include "fakes.h"

#include "../fakes/cuda_library.cpp"
#include "../fakes/nccl.cpp"

namespace patallreduce::native {

using gpu::NcclLibrary;
using reduction::CudaLibrary;

const CudaLibrary& fake_cuda() {
  static const CudaLibrary library{"fake",
                                   patr_cuda_interface,
                                   patr_cuda_build,
                                   patr_cuda_error_name,
                                   patr_cuda_error_text,
                                   patr_cuda_versions,
                                   patr_cuda_device_count,
                                   patr_cuda_device,
                                   patr_cuda_combine,
                                   patr_cuda_scale_copy,
                                   patr_cuda_divide,
                                   patr_cuda_stream_create,
                                   patr_cuda_stream_destroy,
                                   patr_cuda_stream_wait,
                                   patr_cuda_stream_captures,
                                   patr_cuda_event_create,
                                   patr_cuda_event_destroy,
                                   patr_cuda_event_record,
                                   patr_cuda_event_query,
                                   patr_cuda_stream_synchronise,
                                   patr_cuda_copy,
                                   patr_cuda_allocate,
                                   patr_cuda_release,
                                   patr_cuda_allocate_pinned,
                                   patr_cuda_release_pinned,
                                   patr_cuda_set_current};
  return library;
}

const NcclLibrary& fake_nccl() {
  static const NcclLibrary library{"fake",
                                   "2.27.3",
                                   ncclGetVersion,
                                   ncclGetErrorString,
                                   ncclGetLastError,
                                   ncclGetUniqueId,
                                   ncclCommInitRankConfig,
                                   ncclCommGetAsyncError,
                                   ncclCommFinalize,
                                   ncclCommDestroy,
                                   ncclCommAbort,
                                   ncclGroupStart,
                                   ncclGroupEnd,
                                   ncclSend,
                                   ncclRecv};
  return library;
}

}  // namespace patallreduce::native
