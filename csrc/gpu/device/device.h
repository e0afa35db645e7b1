// One GPU's streams, events and memory, and the reductions on them: thin names for CUDA's, by the
// functions of the kernels' library. Handles are CUDA's own.
//
// Throws CudaError naming the device. Thread-safe. Nothing but synchronise, allocating and
// releasing may wait.
#pragma once

#include <cstddef>
#include <string>

#include "reduction/cuda.h"

namespace patallreduce::gpu {

using reduction::CudaLibrary;
using reduction::CudaReduction;

class Device {
 public:
  Device(const CudaLibrary& library, int device);

  void* create_stream() const;  // of high priority: its work goes before that of backward
  void destroy_stream(void* stream) const noexcept;
  // Whether what is queued there is being recorded for a CUDA graph instead of run.
  bool captures(void* stream) const;
  // Throws std::invalid_argument, naming the rank, if so: no collective may become part of a graph.
  void refuse_capture(void* stream, int rank) const;
  void synchronise(void* stream) const;
  // Between any two of device and pinned memory.
  void copy(void* to, const void* from, std::size_t bytes, void* stream) const;

  void* create_event() const;
  void destroy_event(void* event) const noexcept;
  void record(void* event, void* stream) const;
  // Work queued on `stream` from now on starts after what `event` was last recorded behind.
  void wait(void* stream, void* event) const;
  bool done(void* event) const;

  void* allocate(std::size_t bytes) const;
  void release(void* memory) const noexcept;
  // Of the host, which the device copies from and to by itself.
  void* allocate_pinned(std::size_t bytes) const;
  void release_pinned(void* memory) const noexcept;

  // Makes this device the thread's current one; returns which one was.
  int make_current() const;
  void restore_current(int before) const noexcept;

  // Makes this device the thread's current one for as long as it lives, as NCCL needs.
  class Current {
   public:
    explicit Current(const Device& device);
    ~Current();
    Current(const Current&) = delete;

   private:
    const Device& device_;
    const int before_;
  };

  const CudaReduction& reduction() const { return reduction_; }
  int number() const { return reduction_.device(); }

 private:
  void check(int error, const char* doing) const;

  const CudaLibrary& library_;
  const CudaReduction reduction_;
};

}  // namespace patallreduce::gpu
