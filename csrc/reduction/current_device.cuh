// A device for one function.
#pragma once

#include <cuda_runtime.h>

namespace patallreduce {

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
    if (changed_) cudaSetDevice(before_);
  }
  CurrentDevice(const CurrentDevice&) = delete;

  cudaError_t error;

 private:
  int before_ = 0;
  bool changed_ = false;
};

}  // namespace patallreduce
