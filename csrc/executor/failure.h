// Why a communicator failed, and the exceptions that say so.
#pragma once

#include <cstdint>
#include <exception>
#include <string>

namespace patallreduce::executor {

enum class Kind : std::uint8_t { transport, timeout, lost, mismatch };

// The same on all ranks: see executor/ending.h.
struct Failure {
  Kind kind = Kind::transport;
  int rank = -1;  // the rank it names, -1: none
  std::string what;
  // The first collectives, as many as all ranks have the results of that told how they ended.
  std::uint64_t completed = 0;
};

// Throws the class of errors.h that stands for its kind.
[[noreturn]] void raise(const Failure& failure);
// The reverse. What names no rank of its own names `rank`, where it was caught.
Failure failure_of(std::exception_ptr error, int rank);

}  // namespace patallreduce::executor
