// Streams, events and memory: what csrc/gpu asks of CUDA's runtime.
#include "reduction/cuda_interface.h"
#include "reduction/current_device.cuh"

using namespace patallreduce::reduction;

namespace {

cudaStream_t stream_of(void* stream) { return static_cast<cudaStream_t>(stream); }
cudaEvent_t event_of(void* event) { return static_cast<cudaEvent_t>(event); }

}  // namespace

int patr_cuda_stream_create(int device, void** stream) {
  const CurrentDevice current(device);
  if (current.error != cudaSuccess) return current.error;
  int least = 0, greatest = 0;
  if (const cudaError_t error = cudaDeviceGetStreamPriorityRange(&least, &greatest)) return error;
  return cudaStreamCreateWithPriority(reinterpret_cast<cudaStream_t*>(stream),
                                      cudaStreamNonBlocking, greatest);
}

int patr_cuda_stream_destroy(int device, void* stream) {
  const CurrentDevice current(device);
  return cudaStreamDestroy(stream_of(stream));
}

int patr_cuda_stream_wait(int device, void* stream, void* event) {
  const CurrentDevice current(device);
  if (current.error != cudaSuccess) return current.error;
  return cudaStreamWaitEvent(stream_of(stream), event_of(event), 0);
}

int patr_cuda_stream_captures(int device, void* stream, int* captures) {
  const CurrentDevice current(device);
  if (current.error != cudaSuccess) return current.error;
  cudaStreamCaptureStatus status = cudaStreamCaptureStatusNone;
  const cudaError_t error = cudaStreamIsCapturing(stream_of(stream), &status);
  // The default stream, while a stream that waits for it is recorded: it takes nothing until then.
  const bool implied = error == cudaErrorStreamCaptureImplicit;
  if (implied) cudaGetLastError();
  *captures = implied || status != cudaStreamCaptureStatusNone;
  return implied ? cudaSuccess : error;
}

int patr_cuda_event_create(int device, void** event) {
  const CurrentDevice current(device);
  if (current.error != cudaSuccess) return current.error;
  return cudaEventCreateWithFlags(reinterpret_cast<cudaEvent_t*>(event), cudaEventDisableTiming);
}

int patr_cuda_event_destroy(int device, void* event) {
  const CurrentDevice current(device);
  return cudaEventDestroy(event_of(event));
}

int patr_cuda_event_record(int device, void* event, void* stream) {
  const CurrentDevice current(device);
  if (current.error != cudaSuccess) return current.error;
  return cudaEventRecord(event_of(event), stream_of(stream));
}

int patr_cuda_event_query(int device, void* event, int* done) {
  const CurrentDevice current(device);
  if (current.error != cudaSuccess) return current.error;
  const Relaxed relaxed;
  const cudaError_t error = cudaEventQuery(event_of(event));
  *done = error == cudaSuccess;
  if (error != cudaErrorNotReady) return error;
  cudaGetLastError();  // "not ready" is no error to be found by the next call
  return cudaSuccess;
}

int patr_cuda_stream_synchronise(int device, void* stream) {
  const CurrentDevice current(device);
  if (current.error != cudaSuccess) return current.error;
  const Relaxed relaxed;
  return cudaStreamSynchronize(stream_of(stream));
}

int patr_cuda_copy(int device, void* stream, void* to, const void* from, std::size_t bytes) {
  const CurrentDevice current(device);
  if (current.error != cudaSuccess) return current.error;
  return cudaMemcpyAsync(to, from, bytes, cudaMemcpyDefault, stream_of(stream));
}

int patr_cuda_allocate(int device, void** memory, std::size_t bytes) {
  const CurrentDevice current(device);
  if (current.error != cudaSuccess) return current.error;
  const Relaxed relaxed;
  return cudaMalloc(memory, bytes);
}

int patr_cuda_release(int device, void* memory) {
  const CurrentDevice current(device);
  const Relaxed relaxed;
  return cudaFree(memory);
}

int patr_cuda_allocate_pinned(int device, void** memory, std::size_t bytes) {
  const CurrentDevice current(device);
  if (current.error != cudaSuccess) return current.error;
  const Relaxed relaxed;
  return cudaHostAlloc(memory, bytes, cudaHostAllocPortable);
}

int patr_cuda_release_pinned(int device, void* memory) {
  const CurrentDevice current(device);
  const Relaxed relaxed;
  return cudaFreeHost(memory);
}

int patr_cuda_set_current(int device, int* before) {
  if (const cudaError_t error = cudaGetDevice(before)) return error;
  // Also if it is the one: a new thread has a device, but no context yet, which UCX asks for.
  return has_context(device) ? cudaSetDevice(device) : cudaSuccess;
}
