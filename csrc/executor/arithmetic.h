// What an operation does to data, in one kind of memory: the processor's, or a GPU's
// (gpu/device/arithmetic.h). The transport moves either; nothing else of the executor looks at
// what it holds.
//
// Bits, scale and aliasing as in reduction/reduction.h. What is asked for may still be under way
// when a call returns; after finish() it is there, for this thread and for the transport.
// Costs one virtual call per segment and step.
#pragma once

#include <cstddef>
#include <cstdint>

#include "reduction/reduction.h"

namespace patallreduce::executor {

using reduction::combine;
using reduction::divide;
using reduction::Dtype;
using reduction::Op;
using reduction::scale_copy;

class Arithmetic {
 public:
  virtual ~Arithmetic() = default;

  virtual void combine(void* out, void* also, const void* received, const void* held,
                       std::size_t count, Dtype dtype, Op op, double scale) = 0;
  virtual void scale_copy(void* out, const void* in, std::size_t count, Dtype dtype,
                          double scale) = 0;
  virtual void divide(void* data, std::size_t count, Dtype dtype, std::int64_t divisor) = 0;
  virtual void copy(void* out, const void* in, std::size_t bytes) = 0;
  virtual void finish() = 0;

  // Memory of this kind, for scratch; throws where there is none left.
  virtual void* allocate(std::size_t bytes) = 0;
  virtual void release(void* memory) noexcept = 0;

  // Around everything that touches such memory, the transport's work too: CUDA has a current device
  // per thread, and whoever waits drives the engine from his own. Not nested. An error shows in
  // what is done then.
  virtual void enter() noexcept = 0;
  virtual void leave() noexcept = 0;
};

class Entered {
 public:
  explicit Entered(Arithmetic* arithmetic) : arithmetic_(arithmetic) {  // null: nothing to enter
    if (arithmetic_) arithmetic_->enter();
  }
  ~Entered() {
    if (arithmetic_) arithmetic_->leave();
  }
  Entered(const Entered&) = delete;

 private:
  Arithmetic* const arithmetic_;
};

// The processor's.
Arithmetic& host_arithmetic();

}  // namespace patallreduce::executor
