// A device, or leave to make any call, for one function.
#pragma once

#include <cuda_runtime.h>

namespace patallreduce::reduction {

// Whether this process has used the device: choosing one that it has not would make a context
// there, which takes half a gigabyte (CUDA 12). Every thread begins with device 0, so a rank on
// another one would pay for it with each of its threads' first calls. torch's guards ask the same.
inline bool has_context(int device) {
  using State = int(int device, unsigned* flags, int* active);
  static State* const state = [] {
    void* found = nullptr;
#if CUDART_VERSION >= 12050
    cudaGetDriverEntryPointByVersion("cuDevicePrimaryCtxGetState", &found, 11000,
                                     cudaEnableDefault);
#elif CUDART_VERSION >= 12000
    cudaGetDriverEntryPoint("cuDevicePrimaryCtxGetState", &found, cudaEnableDefault);
#endif
    return reinterpret_cast<State*>(found);
  }();
  unsigned flags = 0;
  int active = 1;
  if (state && state(device, &flags, &active) != 0) return true;
  return active != 0;
}

// Another library of this process (torch) may rely on the thread's current device. The runtime is
// linked statically, so this library's last error is not that library's either.
class CurrentDevice {
 public:
  explicit CurrentDevice(int device) {
    error = cudaGetDevice(&before_);
    if (error == cudaSuccess && before_ != device) {
      error = cudaSetDevice(device);
      changed_ = true;
    }
  }
  ~CurrentDevice() {
    if (changed_ && has_context(before_)) cudaSetDevice(before_);
  }
  CurrentDevice(const CurrentDevice&) = delete;

  cudaError_t error;

 private:
  int before_ = 0;
  bool changed_ = false;
};

// A graph that another thread records would be spoilt by calls that CUDA thinks unsafe there.
class Relaxed {
 public:
  Relaxed() { cudaThreadExchangeStreamCaptureMode(&mode_); }
  ~Relaxed() { cudaThreadExchangeStreamCaptureMode(&mode_); }
  Relaxed(const Relaxed&) = delete;

 private:
  cudaStreamCaptureMode mode_ = cudaStreamCaptureModeRelaxed;
};

}  // namespace patallreduce::reduction
