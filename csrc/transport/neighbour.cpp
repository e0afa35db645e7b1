#include "transport/neighbour.h"

#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

#include <cstdio>
#include <cstring>
#include <fstream>
#include <utility>

namespace patallreduce::transport {

ProcessAddress own_process_address(const std::atomic<std::uint64_t>& probe) {
  // Where Yama guards processes, say that siblings may read this one. Without Yama: no effect.
  prctl(PR_SET_PTRACER, PR_SET_PTRACER_ANY, 0, 0, 0);
  ProcessAddress address{};
  std::string boot_id;
  std::getline(std::ifstream("/proc/sys/kernel/random/boot_id"), boot_id);
  char pid_space[32] = {};
  const ssize_t length = readlink("/proc/self/ns/pid", pid_space, sizeof pid_space - 1);
  std::snprintf(address.host, sizeof address.host, "%.36s%.20s", boot_id.c_str(),
                length > 0 ? pid_space : "");
  address.pid = getpid();
  address.probe = reinterpret_cast<std::uint64_t>(&probe);
  address.probe_value = probe;
  return address;
}

Neighbour::Neighbour(const ProcessAddress& address) {
  const ProcessAddress own = own_process_address(std::atomic<std::uint64_t>{0});
  if (std::memcmp(address.host, own.host, sizeof own.host) != 0 || address.pid == own.pid) return;
  pid_ = static_cast<int>(address.pid);
  pidfd_ = static_cast<int>(syscall(SYS_pidfd_open, pid_, 0));
  probe_ = address.probe;
  probe_value_ = address.probe_value;
  readable_ = stands();
}

bool Neighbour::stands() const {
  std::uint64_t value = 0;
  return read(probe_, &value, sizeof value) && value == probe_value_;
}

Neighbour::~Neighbour() {
  if (pidfd_ >= 0) close(pidfd_);
}

Neighbour::Neighbour(Neighbour&& other) noexcept { *this = std::move(other); }

Neighbour& Neighbour::operator=(Neighbour&& other) noexcept {
  std::swap(pid_, other.pid_);
  std::swap(pidfd_, other.pidfd_);
  std::swap(readable_, other.readable_);
  std::swap(probe_, other.probe_);
  std::swap(probe_value_, other.probe_value_);
  return *this;
}

bool Neighbour::read(std::uint64_t address, void* to, std::size_t bytes) const {
  auto* target = static_cast<char*>(to);
  while (bytes > 0) {
    const iovec local{target, bytes};
    const iovec remote{reinterpret_cast<void*>(address), bytes};
    const ssize_t copied = process_vm_readv(pid_, &local, 1, &remote, 1, 0);
    if (copied <= 0) return false;
    target += copied;
    address += static_cast<std::uint64_t>(copied);
    bytes -= static_cast<std::size_t>(copied);
  }
  return true;
}

}  // namespace patallreduce::transport
