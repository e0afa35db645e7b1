// How wide ports are, by what ranks send: made-up flows of a network whose ports are known, and the
// kernel's counters of real connections.
#include "monitor/ports.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "check.h"
#include "transport/sockets.h"

namespace patallreduce::native {

using monitor::Flow;
using monitor::LinkUsed;
using monitor::Ports;
using monitor::Sends;
using transport::End;
using transport::SocketWatch;

namespace {

constexpr int ranks = 8;
constexpr double wide = 25e6;
const std::vector<double> all_wide(ranks, wide);

// One iteration's reports of ranks with these ports; noise: by how much flows are off.
bool iterate(Ports& ports, const std::vector<double>& real, Sends sends, int iteration,
             Random& random, bool slowed = true) {
  constexpr double noise = 0.05;
  bool changed = false;
  for (int rank = 0; rank < ranks; ++rank) {
    LinkUsed used{{1, iteration + 1}, iteration, {}};
    const auto add = [&](int to, double bytes, double bytes_per_s) {
      const double off = 1 + noise * (pick(random, -1000, 1000) / 1000.0);
      used.flows.push_back({to, bytes, bytes / bytes_per_s * off});
    };
    if (sends == Sends::to_all_at_once) {
      // All at once: each other rank takes what its own port can, this one gives what it can.
      for (int to = 0; to < ranks; ++to)
        if (to != rank) add(to, 1e6, std::min(real[rank], real[to]) / (ranks - 1));
    } else {
      const int to = (rank + 1) % ranks;
      add(to, 7e6, std::min(real[rank], real[to]));
    }
    changed = ports.take(rank, used, slowed) || changed;
  }
  return changed;
}

int iterations_until_changed(Ports& ports, const std::vector<double>& real, Sends sends, int first,
                             Random& random) {
  for (int waited = 1; waited <= 20; ++waited)
    if (iterate(ports, real, sends, first + waited, random)) return waited;
  return 0;
}

void check_near(const std::vector<double>& found, const std::vector<double>& real) {
  for (int rank = 0; rank < ranks; ++rank) CHECK(std::abs(found[rank] / real[rank] - 1) < 0.15);
}

void test_narrow_and_back(Random& random) {
  for (const Sends after : {Sends::to_one, Sends::to_all_at_once}) {
    for (const double narrow : {0.5, 0.25, 0.1}) {
      const int rank = pick(random, 0, ranks - 1);
      Ports ports(all_wide);
      ports.runs(0, Sends::to_one);
      for (int iteration = 0; iteration < 20; ++iteration)
        CHECK(!iterate(ports, all_wide, Sends::to_one, iteration, random));
      std::vector<double> real = all_wide;
      real[rank] *= narrow;
      CHECK(iterations_until_changed(ports, real, Sends::to_one, 20, random) == 3);
      check_near(ports.bytes_per_s(), real);
      ports.runs(50, after);
      for (int iteration = 50; iteration < 70; ++iteration)
        CHECK(!iterate(ports, real, after, iteration, random));
      CHECK(iterations_until_changed(ports, all_wide, after, 70, random) == 3);
      CHECK(ports.bytes_per_s() == all_wide);
    }
  }
}

// Whom a narrow port holds up is not taken for narrow: not those next to it, nor one between two.
void test_who_is_to_blame(Random& random) {
  Ports ports(all_wide);
  ports.runs(0, Sends::to_one);
  std::vector<double> real = all_wide;
  real[2] = real[4] = wide / 4;
  CHECK(iterations_until_changed(ports, real, Sends::to_one, 0, random) == 3);
  for (int rank = 0; rank < ranks; ++rank) {
    if (rank == 2 || rank == 4) CHECK(ports.bytes_per_s()[rank] < wide / 3);
    if (rank != 2 && rank != 3 && rank != 4) CHECK(ports.bytes_per_s()[rank] == wide);
  }
}

// A single slow iteration, or one in which all are slow, changes nothing.
void test_what_passes(Random& random) {
  Ports ports(all_wide);
  ports.runs(0, Sends::to_one);
  std::vector<double> narrow = all_wide, slow(ranks, wide / 3);
  narrow[5] /= 4;
  for (int iteration = 0; iteration < 60; ++iteration) {
    const auto& real = iteration % 3 == 0 ? narrow : iteration % 3 == 1 ? slow : all_wide;
    CHECK(!iterate(ports, real, Sends::to_one, iteration, random));
  }
  for (int iteration = 60; iteration < 80; ++iteration)
    CHECK(!iterate(ports, slow, Sends::to_one, iteration, random));
}

// A port that seems narrow while iterations take no longer, one that seems wider than any was.
void test_what_cannot_be(Random& random) {
  std::vector<double> odd = all_wide;
  odd[2] = wide / 2;
  odd[6] = odd[7] = 2 * wide;
  for (const Sends sends : {Sends::to_one, Sends::to_all_at_once}) {
    Ports ports(all_wide);
    ports.runs(0, sends);
    for (int iteration = 0; iteration < 20; ++iteration)
      iterate(ports, odd, sends, iteration, random, false);
    CHECK(ports.bytes_per_s() == all_wide);
  }
}

// What ran is not known to fill ports, or has not run for all that a report tells of.
void test_what_tells_nothing(Random& random) {
  std::vector<double> narrow = all_wide;
  narrow[5] /= 4;
  Ports ports(all_wide);
  for (int iteration = 0; iteration < 20; ++iteration)
    CHECK(!iterate(ports, narrow, Sends::to_one, iteration, random));
  for (int iteration = 20; iteration < 40; ++iteration) {
    ports.runs(iteration + 1, iteration % 2 ? Sends::to_one : Sends::otherwise);
    CHECK(!iterate(ports, narrow, Sends::to_one, iteration, random));
  }
}

void test_reports_that_make_no_sense(Random& random) {
  Ports ports(all_wide);
  ports.runs(0, Sends::to_one);
  for (int iteration = 0; iteration < 200; ++iteration) {
    if (pick(random, 0, 5) == 0)
      ports.runs(iteration, pick(random, 0, 1) ? Sends::to_one : Sends::to_all_at_once);
    for (int rank = 0; rank < ranks; ++rank) {
      LinkUsed used{{1, iteration + 1}, iteration, {}};
      for (int left = pick(random, 0, 9); left > 0; --left) {
        static const double odd[] = {0,
                                     -1,
                                     1e300,
                                     1e-300,
                                     1,
                                     std::numeric_limits<double>::infinity(),
                                     std::numeric_limits<double>::quiet_NaN()};
        used.flows.push_back(
            {pick(random, 0, ranks - 1), odd[pick(random, 0, 6)], odd[pick(random, 0, 6)]});
      }
      ports.take(rank, used, true);
    }
    for (const double bytes_per_s : ports.bytes_per_s())
      CHECK(std::isfinite(bytes_per_s) && bytes_per_s > 0);
  }
}

// A listener on its own address of this host, as a rank has one.
struct Listener {
  explicit Listener(const char* host) : socket(::socket(AF_INET, SOCK_STREAM, 0)) {
    sockaddr_in address{};
    address.sin_family = AF_INET;
    CHECK(inet_pton(AF_INET, host, &address.sin_addr) == 1);
    CHECK(bind(socket, reinterpret_cast<sockaddr*>(&address), sizeof address) == 0);
    CHECK(listen(socket, 4) == 0);
    socklen_t bytes = sizeof address;
    CHECK(getsockname(socket, reinterpret_cast<sockaddr*>(&address), &bytes) == 0);
    port = address.sin_port;
    host_at = address.sin_addr;
  }
  ~Listener() { close(socket); }
  int connect_to() const {
    const int from = ::socket(AF_INET, SOCK_STREAM, 0);
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr = host_at;
    address.sin_port = port;
    CHECK(connect(from, reinterpret_cast<sockaddr*>(&address), sizeof address) == 0);
    return from;
  }
  int socket;
  in_port_t port = 0;
  in_addr host_at{};
};

std::set<End> only_end_with(const Listener& listener) {
  for (const End& end : transport::listening())
    if (end.port == ntohs(listener.port)) return {end};
  return {};
}

void test_counters() {
  const Listener one("127.0.0.2"), two("127.0.0.3");
  const std::vector<std::set<End>> ends{only_end_with(one), only_end_with(two)};
  CHECK(ends[0].size() == 1 && ends[1].size() == 1);
  CHECK(!SocketWatch({ends[0], ends[0]}).watches());
  CHECK(!SocketWatch({ends[0], {}}).watches());
  CHECK(!SocketWatch({}).watches());
  const int sender = two.connect_to();
  const int receiver = accept(two.socket, nullptr, nullptr);
  SocketWatch watch(ends);
  CHECK(watch.watches());
  const auto before = watch.sent();
  CHECK(before.size() == 2);
  std::vector<char> bytes(100000);
  CHECK(write(sender, bytes.data(), bytes.size()) == static_cast<ssize_t>(bytes.size()));
  CHECK(recv(receiver, bytes.data(), bytes.size(), MSG_WAITALL) ==
        static_cast<ssize_t>(bytes.size()));
  for (int tries = 0; watch.sent()[1].bytes == before[1].bytes && tries < 1000; ++tries)
    usleep(1000);
  const auto after = watch.sent();
  CHECK(after[1].bytes - before[1].bytes == bytes.size());
  CHECK(after[1].busy_s >= before[1].busy_s);
  CHECK(after[0].bytes == 0);
  close(sender);
  const Listener another("127.0.0.4");  // most likely under that number
  CHECK(watch.sent()[1].bytes == 0);
  close(receiver);
}

}  // namespace

void test_ports(Random& random) {
  for (int i = 0; i < 50; ++i) {
    test_narrow_and_back(random);
    test_who_is_to_blame(random);
    test_what_passes(random);
    test_what_cannot_be(random);
    test_what_tells_nothing(random);
    test_reports_that_make_no_sense(random);
  }
  test_counters();
}

}  // namespace patallreduce::native
