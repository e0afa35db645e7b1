// The errors that leave the core, one class each; bindings/errors.cpp maps them to Python.
//
// A message says what was expected, what came, and on which rank. The core never prints.
#pragma once

#include <cstdint>
#include <sstream>
#include <stdexcept>
#include <string>
#include <utility>

namespace patallreduce {

// The caller's schedule, segment count or arrival times make no sense.
struct ScheduleError : std::invalid_argument {
  using std::invalid_argument::invalid_argument;
};

// A peer or the network failed. The communicator is dead afterwards. `rank` is the
// rank the error names, -1 where none can be named. `completed`: of how many collectives of the
// communicator all surviving ranks have the result, the first ones; -1 where it is not known.
struct TransportError : std::runtime_error {
  explicit TransportError(const std::string& what, int rank_ = -1, std::int64_t completed_ = -1)
      : std::runtime_error(what), rank(rank_), completed(completed_) {}
  int rank;
  std::int64_t completed;
};

// A peer's process died or left.
struct PeerLostError : TransportError {
  using TransportError::TransportError;
};

// A deadline passed.
struct TransportTimeout : TransportError {
  using TransportError::TransportError;
};

// Ranks called one collective with different arguments.
struct MismatchError : TransportError {
  using TransportError::TransportError;
};

// The GPU kernels, CUDA or a device failed. `device` is the one the error names, -1 where none can
// be named. After most errors of a running kernel CUDA refuses everything else in the process.
struct CudaError : std::runtime_error {
  explicit CudaError(const std::string& what, int device_ = -1)
      : std::runtime_error(what), device(device_) {}
  int device;
};

template <typename... Parts>
std::string concat(const Parts&... parts) {
  std::ostringstream text;
  text.exceptions(std::ios::badbit);  // out of memory: not half a text
  (text << ... << parts);
  return text.str();
}

}  // namespace patallreduce

// PATR_CHECK(x > 0, ScheduleError, "expected ..., got ", x) throws with the joined message.
#define PATR_CHECK(condition, Error, ...)                               \
  do {                                                                  \
    if (!(condition)) throw Error(::patallreduce::concat(__VA_ARGS__)); \
  } while (false)
