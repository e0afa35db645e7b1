// Another process on this host: seen to die at once, and read from without a copy in between.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <string>

namespace patallreduce::transport {

// How a process tells others on its host where it is. Trivially copied into an address.
struct ProcessAddress {
  char host[64];  // kernel, process numbers and memory: equal means "the same host"
  std::int64_t pid;
  std::uint64_t probe;  // where in its memory `probe_value` is
  std::uint64_t probe_value;
};

// `probe`: a word of this process that keeps its value for as long as its memory may be read.
ProcessAddress own_process_address(const std::atomic<std::uint64_t>& probe);

class Neighbour {
 public:
  Neighbour() = default;
  // Nobody, unless `address` is of another process on this host.
  explicit Neighbour(const ProcessAddress& address);
  ~Neighbour();
  Neighbour(const Neighbour&) = delete;
  Neighbour& operator=(const Neighbour&) = delete;
  Neighbour(Neighbour&& other) noexcept;
  Neighbour& operator=(Neighbour&& other) noexcept;

  // Readable once it has ended; -1 if it cannot be watched.
  int pidfd() const { return pidfd_; }
  // Whether read() works: tried once, on the probe.
  bool readable() const { return readable_; }
  // Whether the probe still has its value: what was read before this was not revoked.
  bool stands() const;
  // Copies from its memory. False if it has died, or never had that memory.
  bool read(std::uint64_t address, void* to, std::size_t bytes) const;

 private:
  int pid_ = -1;
  int pidfd_ = -1;
  bool readable_ = false;
  std::uint64_t probe_ = 0;
  std::uint64_t probe_value_ = 0;
};

}  // namespace patallreduce::transport
