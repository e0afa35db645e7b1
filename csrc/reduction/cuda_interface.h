// What libpatallreduce_cuda.so exports: plain C, so that the core finds it by dlopen and a build
// without CUDA needs nothing of it.
//
// Every function with a result int returns 0 or a cudaError_t, but for the first; only those that
// ask for devices or memory, or say so, may synchronise. None but patr_cuda_set_current leaves
// another device current than it found, unless the process has never used that one. `stream` is a
// cudaStream_t, null the default stream; an event is a cudaEvent_t. Kernels and copies are safe
// under stream capture. dtype and op are the enumerators of reduction.h.
#pragma once

#include <cstddef>
#include <cstdint>

#define PATR_EXPORT extern "C" __attribute__((visibility("default")))

// Changes with any change below: a library left over from another build is refused.
constexpr int patr_cuda_interface_version = 3;

// Where to run: a device, and the most blocks to run there.
struct PatrCudaLaunch {
  int device;
  int blocks;
  void* stream;
};

struct PatrCudaDevice {
  char name[256];
  int major, minor;  // compute capability
  int multiprocessors;
};

PATR_EXPORT int patr_cuda_interface();
// For which architectures, by which nvcc.
PATR_EXPORT const char* patr_cuda_build();
PATR_EXPORT const char* patr_cuda_error_name(int error);
PATR_EXPORT const char* patr_cuda_error_text(int error);

// 1000 * major + 10 * minor: the newest CUDA that the driver knows, 0 without a driver, and the one
// that the kernels were built with.
PATR_EXPORT int patr_cuda_versions(int* driver, int* kernels);
PATR_EXPORT int patr_cuda_device_count(int* count);
// Also loads the kernels: fails with cudaErrorNoKernelImageForDevice where none is for the device.
// `facts` are there even then.
PATR_EXPORT int patr_cuda_device(int device, PatrCudaDevice* facts);

// As combine, scale_copy and divide of reduction.h, on device memory and in stream order.
PATR_EXPORT int patr_cuda_combine(const PatrCudaLaunch* launch, void* out, void* also,
                                  const void* received, const void* held, std::size_t count,
                                  int dtype, int op, double scale);
PATR_EXPORT int patr_cuda_scale_copy(const PatrCudaLaunch* launch, void* out, const void* in,
                                     std::size_t count, int dtype, double scale);
PATR_EXPORT int patr_cuda_divide(const PatrCudaLaunch* launch, void* data, std::size_t count,
                                 int dtype, std::int64_t divisor);

// Streams and events, for csrc/gpu. A stream is of the highest priority and does not wait for
// the default stream; events take no times. `captures`: whether a CUDA graph is recorded there.
// A query is no error in a thread that records another graph.
PATR_EXPORT int patr_cuda_stream_create(int device, void** stream);
PATR_EXPORT int patr_cuda_stream_destroy(int device, void* stream);
PATR_EXPORT int patr_cuda_stream_wait(int device, void* stream, void* event);
PATR_EXPORT int patr_cuda_stream_captures(int device, void* stream, int* captures);
PATR_EXPORT int patr_cuda_event_create(int device, void** event);
PATR_EXPORT int patr_cuda_event_destroy(int device, void* event);
PATR_EXPORT int patr_cuda_event_record(int device, void* event, void* stream);
PATR_EXPORT int patr_cuda_event_query(int device, void* event, int* done);

// Waits until the stream is empty.
PATR_EXPORT int patr_cuda_stream_synchronise(int device, void* stream);

// Between any two of device and pinned memory, in stream order. Pageable memory would be copied
// too, but with the host waiting.
PATR_EXPORT int patr_cuda_copy(int device, void* stream, void* to, const void* from,
                               std::size_t bytes);

PATR_EXPORT int patr_cuda_allocate(int device, void** memory, std::size_t bytes);
PATR_EXPORT int patr_cuda_release(int device, void* memory);
// Of the host, pinned: every device reaches it without the host's help.
PATR_EXPORT int patr_cuda_allocate_pinned(int device, void** memory, std::size_t bytes);
PATR_EXPORT int patr_cuda_release_pinned(int device, void* memory);
// Of this thread; `before`: which one was. No change where the process has never used `device`.
PATR_EXPORT int patr_cuda_set_current(int device, int* before);
