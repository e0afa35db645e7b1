#include "transport/sockets.h"

#include <dirent.h>
#include <fcntl.h>
#include <linux/tcp.h>
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

constexpr double look_interval_s = 1;  // for connections that are new, or gone

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

SocketWatch::SocketWatch(const std::vector<std::set<End>>& ends) : ranks_(ends.size()) {
  for (std::size_t rank = 0; rank < ends.size(); ++rank) {
    std::set<Host> hosts;
    for (const End& end : ends[rank]) hosts.insert({end.host[0], end.host[1]});
    for (const Host& host : hosts) {
      if (rank_at_.emplace(host, static_cast<int>(rank)).second) continue;
      rank_at_.clear();
      return;
    }
    if (hosts.empty()) {
      rank_at_.clear();
      return;
    }
    ends_.insert(ends[rank].begin(), ends[rank].end());
  }
}

// Which sockets are connected to which rank.
void SocketWatch::look() {
  known_.clear();
  each_socket_with(ends_, [&](int number, int own) {
    struct stat status;
    const auto there = end_of(own, getpeername);
    if (!there || fstat(own, &status) != 0) return;
    const auto found = rank_at_.find({there->host[0], there->host[1]});
    if (found != rank_at_.end()) known_.push_back({number, status.st_ino, found->second});
  });
}

std::vector<Sent> SocketWatch::sent() {
  if (const double now = now_s(); now >= next_look_s_) {
    next_look_s_ = now + look_interval_s;
    look();
  }
  std::vector<Sent> sent(ranks_);
  for (const Known& known : known_) {
    struct stat status;
    tcp_info info{};
    socklen_t bytes = sizeof info;
    if (fstat(known.number, &status) != 0 || status.st_ino != known.inode ||
        getsockopt(known.number, IPPROTO_TCP, TCP_INFO, &info, &bytes) != 0)
      continue;
    Sent& to = sent[std::size_t(known.rank)];
    to.bytes += info.tcpi_bytes_acked;
    // Several carry the parts of the same messages at the same time.
    to.busy_s = std::max(to.busy_s,
                         static_cast<double>(info.tcpi_busy_time - info.tcpi_rwnd_limited) / 1e6);
  }
  return sent;
}

}  // namespace patallreduce::transport
