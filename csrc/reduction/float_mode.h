// The floating-point mode of a thread: whether it flushes subnormals to zero, how it rounds.
//
// Sums run on whichever thread drives the engine: the caller's or the engine's own, which inherited
// the mode of the thread that made it. torch.set_flush_denormal(True) changes the mode of one of
// them, so the bits of a sum would depend on timing. The reductions therefore run in the default
// mode, subnormals kept and rounding to nearest-even, and give the caller's mode back.
#pragma once

#include <cstdint>
#include <limits>

#if defined(__x86_64__)
#include <xmmintrin.h>
#endif

namespace patallreduce::reduction {

#if defined(__x86_64__)
inline std::uint32_t float_mode() { return _mm_getcsr(); }
inline void set_float_mode(std::uint32_t mode) { _mm_setcsr(mode); }
// Denormals are zeros (bit 6), rounding (13 and 14), flush to zero (15).
constexpr std::uint32_t float_mode_mask = 1u << 6 | 3u << 13 | 1u << 15;
#elif defined(__aarch64__)
inline std::uint32_t float_mode() {
  std::uint64_t mode;
  asm volatile("mrs %0, fpcr" : "=r"(mode));
  return std::uint32_t(mode);
}
inline void set_float_mode(std::uint32_t mode) {
  asm volatile("msr fpcr, %0" : : "r"(std::uint64_t(mode)));
}
// Flush of float16 (bit 19), rounding (22 and 23), flush to zero (24), default NaN (25).
constexpr std::uint32_t float_mode_mask = 1u << 19 | 3u << 22 | 1u << 24 | 1u << 25;
#else
inline std::uint32_t float_mode() { return 0; }
inline void set_float_mode(std::uint32_t) {}
constexpr std::uint32_t float_mode_mask = 0;
#endif

// The default mode for as long as it lives: a few cycles where that is the mode already.
class DefaultFloatMode {
 public:
  DefaultFloatMode() : before_(float_mode()) {
    if (before_ & float_mode_mask) set_float_mode(before_ & ~float_mode_mask);
  }
  ~DefaultFloatMode() {
    if (before_ & float_mode_mask) set_float_mode(before_);
  }
  DefaultFloatMode(const DefaultFloatMode&) = delete;

 private:
  const std::uint32_t before_;
};

// Whether this thread's own arithmetic loses subnormals; tried, so it is true of any processor.
inline bool flushes_subnormals() {
  volatile float smallest = std::numeric_limits<float>::min();
  volatile float half = smallest / 2;  // operands or result: either flush shows
  return half * 2 != smallest;
}

}  // namespace patallreduce::reduction
