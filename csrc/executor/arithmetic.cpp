#include "executor/arithmetic.h"

#include <cstdlib>
#include <cstring>
#include <new>

namespace patallreduce::executor {

namespace {

constexpr std::size_t alignment = 64;

class HostArithmetic final : public Arithmetic {
 public:
  void combine(void* out, void* also, const void* received, const void* held, std::size_t count,
               Dtype dtype, Op op, double scale) override {
    reduction::combine(out, also, received, held, count, dtype, op, scale);
  }
  void scale_copy(void* out, const void* in, std::size_t count, Dtype dtype,
                  double scale) override {
    reduction::scale_copy(out, in, count, dtype, scale);
  }
  void divide(void* data, std::size_t count, Dtype dtype, std::int64_t divisor) override {
    reduction::divide(data, count, dtype, divisor);
  }
  void copy(void* out, const void* in, std::size_t bytes) override { std::memcpy(out, in, bytes); }
  void finish() override {}

  void* allocate(std::size_t bytes) override {
    void* const memory = std::aligned_alloc(alignment, bytes);
    if (!memory) throw std::bad_alloc();
    return memory;
  }
  void release(void* memory) noexcept override { std::free(memory); }

  void enter() noexcept override {}
  void leave() noexcept override {}
};

}  // namespace

Arithmetic& host_arithmetic() {
  static HostArithmetic host;
  return host;
}

}  // namespace patallreduce::executor
