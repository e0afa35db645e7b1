// The same over UCX, its ranks in one process: shared memory moves the data as between processes.
#include <netinet/in.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <thread>

#include "clock.h"
#include "over_ucx.h"

namespace patallreduce::native {

using transport::Events;
using transport::Transport;
using transport::UcxLibrary;

namespace {

std::vector<std::shared_ptr<Transport>> connected(const UcxLibrary& library, int ranks,
                                                  Random& random) {
  const auto transports = over_ucx(library, ranks, random);
  return {transports.begin(), transports.end()};
}

// As long as somebody sends without pause there is something to do for UCX.
decltype(UcxLibrary::ucp_worker_progress) progress;
std::atomic<double> flood_until_s{0};

unsigned progress_in_flood(ucp_worker_h worker) {
  const unsigned events = progress(worker);
  if (flood_until_s == 0) return events;
  if (now_s() > flood_until_s) failed(__FILE__, __LINE__, "starved by a flood");
  return 1;
}

void deadlines_hold_in_a_flood(UcxLibrary library, Random& random) {
  progress = library.ucp_worker_progress;
  library.ucp_worker_progress = progress_in_flood;
  {
    const auto ranks = connected(library, 2, random);
    const Values values(1 << 20);
    ranks[0]->send(1, 1, values.data(), values.size() * sizeof(float), 1);
    flood_until_s = now_s() + 20;
    ranks[0]->close(0.2);  // rank 1 takes nothing
  }
  flood_until_s = 0;
  auto engines = engines_over(connected(library, 2, random));
  flood_until_s = now_s() + 20;
  Values values(1 << 18);
  const auto ticket = engines[0]->submit(values.data(), call_of(values.size(), "ring", 2), 0.3);
  wait(*engines[0], *ticket);
  CHECK(ticket->failure && ticket->failure->rank == 1);  // it did not call
  each_rank(2, [&](int rank) { engines[rank]->close(0.2); });
  flood_until_s = 0;
}

std::vector<int> connections() {
  std::vector<int> found;
  for (int socket = 3; socket < 256; ++socket) {
    sockaddr_in peer;
    socklen_t length = sizeof peer;
    if (getpeername(socket, reinterpret_cast<sockaddr*>(&peer), &length) == 0 &&
        peer.sin_family == AF_INET)
      found.push_back(socket);
  }
  return found;
}

int port_of(int (*end)(int, sockaddr*, socklen_t*), int socket) {
  sockaddr_in address{};
  socklen_t length = sizeof address;
  end(socket, reinterpret_cast<sockaddr*>(&address), &length);
  return address.sin_port;
}

int unread(int socket) {
  int bytes = 0;
  ioctl(socket, FIONREAD, &bytes);
  return bytes;
}

// As if nothing reached its other end any more.
void fill(int connection) {
  const std::string bytes(1 << 16, 'x');
  for (int tries = 0; tries < 20; ++tries) {  // the system moves some on meanwhile
    while (send(connection, bytes.data(), bytes.size(), MSG_DONTWAIT) > 0) continue;
    while (send(connection, bytes.data(), 1, MSG_DONTWAIT) > 0) continue;
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
}

// UCX would try for ever to tell its other end that it leaves.
void connections_that_take_nothing_are_shut_down(const UcxLibrary& library, Random& random) {
  for (const bool fails : {false, true}) {
    const auto ranks = over_ucx(library, 2, random, {"tcp", ""});
    Events events;
    for (int rank = 0; rank < 2; ++rank) ranks[rank]->control(1 - rank, "here");
    const auto none_unread = [] {
      const auto all = connections();
      return std::none_of(all.begin(), all.end(), [](int one) { return unread(one) > 0; });
    };
    for (int quiet = 0; events.control.size() < 2 || quiet < 100;
         quiet = none_unread() ? quiet + 1 : 0)
      for (const auto& rank : ranks) rank->progress(events);
    int own = -1, other = -1;
    for (ranks[0]->control(1, "not read"); other < 0; ranks[0]->progress(events))
      for (const int connection : connections())
        if (unread(connection)) other = connection;
    for (const int connection : connections())  // there may be several
      if (port_of(getsockname, connection) == port_of(getpeername, other)) own = connection;
    own = dup(own);
    fill(own);
    if (fails) ranks[0]->abandon();
    ranks[0]->close(0.2);
    CHECK(send(own, "x", 1, MSG_DONTWAIT | MSG_NOSIGNAL) < 0 && errno == EPIPE);
    close(own);
    std::string bytes(1 << 16, '\0');  // UCX would take them for messages
    while (recv(other, bytes.data(), bytes.size(), MSG_DONTWAIT) > 0) continue;
  }
}

}  // namespace

void test_ucx(Random& random, const std::string& libucp) {
  const UcxLibrary& library = UcxLibrary::open(libucp);
  deadlines_hold_in_a_flood(library, random);
  connections_that_take_nothing_are_shut_down(library, random);
  for (const int ranks : {2, 3}) {
    auto engines = engines_over(connected(library, ranks, random));
    random_collectives(engines, random, 8, 300000);
    each_rank(ranks, [&](int rank) { engines[rank]->close(10); });
  }
  // Given up in the middle: the memory is the caller's again once the ticket is done.
  auto engines = engines_over(connected(library, 3, random));
  const unsigned long seed = random();
  each_rank(3, [&](int rank) {
    Random own(seed + static_cast<unsigned long>(rank));
    for (;;) {
      auto values = std::make_unique<std::vector<float>>(1 << 18);
      const auto ticket = engines[rank]->submit(values->data(), call_of(1 << 18, "ring", 16), 60);
      if (rank == 1 && pick(own, 0, 5) == 0) engines[1]->abort("by the test");
      wait(*engines[rank], *ticket);
      values.reset();
      if (ticket->failure) break;
    }
    engines[rank]->close(1);
  });
}

}  // namespace patallreduce::native
