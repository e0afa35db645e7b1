// The reductions on one GPU, by the kernels of a library of their own that is opened at run time:
// the core links nothing of CUDA and runs where there is none.
#pragma once

#include <string>
#include <utility>

#include "reduction/cuda_interface.h"
#include "reduction/reduction.h"

namespace patallreduce::reduction {

// The library's functions, as members of the same name.
struct CudaLibrary {
  std::string path;

  decltype(&::patr_cuda_interface) patr_cuda_interface;
  decltype(&::patr_cuda_build) patr_cuda_build;
  decltype(&::patr_cuda_error_name) patr_cuda_error_name;
  decltype(&::patr_cuda_error_text) patr_cuda_error_text;
  decltype(&::patr_cuda_versions) patr_cuda_versions;
  decltype(&::patr_cuda_device_count) patr_cuda_device_count;
  decltype(&::patr_cuda_device) patr_cuda_device;
  decltype(&::patr_cuda_combine) patr_cuda_combine;
  decltype(&::patr_cuda_scale_copy) patr_cuda_scale_copy;
  decltype(&::patr_cuda_divide) patr_cuda_divide;
  decltype(&::patr_cuda_stream_create) patr_cuda_stream_create;
  decltype(&::patr_cuda_stream_destroy) patr_cuda_stream_destroy;
  decltype(&::patr_cuda_stream_wait) patr_cuda_stream_wait;
  decltype(&::patr_cuda_stream_captures) patr_cuda_stream_captures;
  decltype(&::patr_cuda_event_create) patr_cuda_event_create;
  decltype(&::patr_cuda_event_destroy) patr_cuda_event_destroy;
  decltype(&::patr_cuda_event_record) patr_cuda_event_record;
  decltype(&::patr_cuda_event_query) patr_cuda_event_query;
  decltype(&::patr_cuda_stream_synchronise) patr_cuda_stream_synchronise;
  decltype(&::patr_cuda_copy) patr_cuda_copy;
  decltype(&::patr_cuda_allocate) patr_cuda_allocate;
  decltype(&::patr_cuda_release) patr_cuda_release;
  decltype(&::patr_cuda_allocate_pinned) patr_cuda_allocate_pinned;
  decltype(&::patr_cuda_release_pinned) patr_cuda_release_pinned;
  decltype(&::patr_cuda_set_current) patr_cuda_set_current;

  // Opens the library at `path` once, for good. Throws CudaError saying what is missing.
  static const CudaLibrary& open(const std::string& path);

  // Devices that CUDA sees, 1 or more. Throws CudaError saying why there is none.
  int device_count() const;

  // Throws CudaError of `device`; `error` is what the library returned.
  [[noreturn]] void fail(int error, int device, const std::string& doing) const;
};

// Reductions on one device. Calls queue their work on `stream`, a cudaStream_t (null: the default
// stream), and return. Addresses are of memory that the device reaches, aligned to an element, and
// must stay valid until the stream has passed. Bits, scale and aliasing as in reduction.h.
// Throws CudaError naming the device. Thread-safe: nothing changes after construction.
class CudaReduction {
 public:
  // More blocks at once than a multiprocessor holds (5 to 8), so that none waits for the slowest;
  // few enough that a thread has several vectors to itself where there are many.
  static constexpr int default_blocks_per_multiprocessor = 32;

  CudaReduction(const CudaLibrary& library, int device,
                int blocks_per_multiprocessor = default_blocks_per_multiprocessor);

  void combine(void* out, void* also, const void* received, const void* held, std::size_t count,
               Dtype dtype, Op op, double scale, void* stream) const;
  void scale_copy(void* out, const void* in, std::size_t count, Dtype dtype, double scale,
                  void* stream) const;
  void divide(void* data, std::size_t count, Dtype dtype, std::int64_t divisor, void* stream) const;

  int device() const { return device_; }
  std::string name() const { return facts_.name; }
  std::pair<int, int> capability() const { return {facts_.major, facts_.minor}; }
  int multiprocessors() const { return facts_.multiprocessors; }

 private:
  PatrCudaLaunch on(void* stream) const { return {device_, blocks_, stream}; }
  void check_aligned(const void* address, Dtype dtype) const;

  const CudaLibrary& library_;
  const int device_;
  PatrCudaDevice facts_{};
  int blocks_ = 0;
};

}  // namespace patallreduce::reduction
