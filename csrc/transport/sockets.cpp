#include "transport/sockets.h"

#include <dirent.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <optional>

#include "clock.h"

namespace patallreduce::transport {

namespace {

using Name = int (*)(int, sockaddr*, socklen_t*);

// What getsockname() or getpeername() gives; nothing: not connected, or not of TCP.
std::optional<End> end_of(int socket, Name name) {
  sockaddr_storage address{};
  socklen_t bytes = sizeof address;
  if (name(socket, reinterpret_cast<sockaddr*>(&address), &bytes) != 0) return std::nullopt;
  End end{};
  in6_addr host{};
  if (address.ss_family == AF_INET6) {
    const auto& six = reinterpret_cast<const sockaddr_in6&>(address);
    host = six.sin6_addr;
    end.port = ntohs(six.sin6_port);
  } else if (address.ss_family == AF_INET) {
    const auto& four = reinterpret_cast<const sockaddr_in&>(address);
    host.s6_addr[10] = host.s6_addr[11] = 0xff;
    std::memcpy(&host.s6_addr[12], &four.sin_addr, sizeof four.sin_addr);
    end.port = ntohs(four.sin_port);
  } else {
    return std::nullopt;
  }
  std::memcpy(end.host, &host, sizeof end.host);
  return end;
}

int option(int socket, int name) {
  int value = 0;
  socklen_t bytes = sizeof value;
  return getsockopt(socket, SOL_SOCKET, name, &value, &bytes) == 0 ? value : -1;
}

// All of this process's, by number. See() gets a number of its own besides: meanwhile another
// thread may close the first, and open something else under it.
template <typename See>
void each_socket(See see) {
  const std::unique_ptr<DIR, int (*)(DIR*)> numbers(opendir("/proc/self/fd"), closedir);
  if (!numbers) return;
  while (const dirent* entry = readdir(numbers.get())) {
    const int number = std::atoi(entry->d_name);
    struct stat status;
    if (entry->d_name[0] == '.' || fstat(number, &status) != 0 || !S_ISSOCK(status.st_mode))
      continue;
    const int own = fcntl(number, F_DUPFD_CLOEXEC, 0);
    if (own < 0) continue;
    if (option(own, SO_PROTOCOL) == IPPROTO_TCP) see(number, own);
    close(own);
  }
}

template <typename See>
void each_socket_with(const std::set<End>& ends, See see) {
  if (ends.empty()) return;
  each_socket([&](int number, int own) {
    const auto here = end_of(own, getsockname), there = end_of(own, getpeername);
    if ((here && ends.count(*here)) || (there && ends.count(*there))) see(number, own);
  });
}

}  // namespace

std::set<End> listening() {
  std::set<End> ends;
  each_socket([&](int, int own) {
    const auto end = end_of(own, getsockname);
    if (end && option(own, SO_ACCEPTCONN) == 1) ends.insert(*end);
  });
  return ends;
}

void shut_down_blocked(const std::set<End>& ends, double timeout_s) {
  const double until_s = now_s() + timeout_s;
  each_socket_with(ends, [&](int, int own) {
    if (option(own, SO_ACCEPTCONN) == 1) return;
    pollfd writable{own, POLLOUT, 0};
    const double left_s = std::max(until_s - now_s(), 0.0);
    if (poll(&writable, 1, static_cast<int>(left_s * 1e3)) == 0) shutdown(own, SHUT_RDWR);
  });
}

void close_in_child(const std::set<End>& ends) {
  const int nothing = open("/dev/null", O_RDWR | O_CLOEXEC);
  each_socket_with(ends, [&](int number, int) { dup3(nothing, number, O_CLOEXEC); });
  close(nothing);
}

}  // namespace patallreduce::transport
