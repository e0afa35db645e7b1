// What the fuzzed programs share: the bytes of the fuzzer, and the simulated clock.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>

namespace patallreduce::fuzz {

// Taken from the front; none left: zeros.
class Input {
 public:
  Input(const std::uint8_t* data, std::size_t size) : data_(data), end_(data + size) {}

  bool empty() const { return data_ == end_; }
  std::uint8_t byte() { return empty() ? 0 : *data_++; }
  std::string bytes(std::size_t count) {
    count = std::min<std::size_t>(count, end_ - data_);
    const std::string bytes(reinterpret_cast<const char*>(data_), count);
    data_ += count;
    return bytes;
  }

 private:
  const std::uint8_t* data_;
  const std::uint8_t* end_;
};

// What now_s() says.
extern double simulated_s;

// Of each program: one run.
void run(Input& input);

}  // namespace patallreduce::fuzz
