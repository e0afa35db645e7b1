// cables FD FD DELAY_NS [FD FD DELAY_NS ...]: hands packets from one TAP device to another, each
// some time after it came, in both directions. Ends with its standard input.
#include <fcntl.h>
#include <poll.h>
#include <sys/prctl.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <deque>
#include <vector>

namespace {

constexpr std::size_t longest = 70000;  // a packet of 64 KiB with its headers
constexpr int most_at_once = 64;        // from one device, before others have their turn

std::int64_t now_ns() {
  timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return now.tv_sec * 1000000000ll + now.tv_nsec;
}

struct Packet {
  std::int64_t due_ns;
  std::size_t length;
  std::vector<char> bytes;  // the longest: to make them so again would fill them with zeros
};

struct Way {  // one direction of a cable
  int from, to;
  std::int64_t delay_ns;
  std::deque<Packet> packets = {};

  void take(std::vector<std::vector<char>>& spare) {
    for (int left = most_at_once; left > 0; --left) {
      if (spare.empty()) spare.emplace_back(longest);
      std::vector<char> bytes = std::move(spare.back());
      spare.pop_back();
      const ssize_t length = read(from, bytes.data(), bytes.size());
      if (length <= 0) {
        spare.push_back(std::move(bytes));
        return;
      }
      packets.push_back({now_ns() + delay_ns, static_cast<std::size_t>(length), std::move(bytes)});
    }
  }

  void give(std::vector<std::vector<char>>& spare) {
    while (!packets.empty() && packets.front().due_ns <= now_ns()) {
      // What a device does not take, since it is down or full, is lost, as on a wire.
      const Packet& packet = packets.front();
      if (write(to, packet.bytes.data(), packet.length) < 0 && errno == EBADFD) std::exit(1);
      spare.push_back(std::move(packets.front().bytes));
      packets.pop_front();
    }
  }
};

}  // namespace

int main(int argc, char** argv) {
  prctl(PR_SET_TIMERSLACK, 1);
  std::vector<Way> ways;
  for (int i = 1; i + 2 < argc; i += 3) {
    const int one = std::atoi(argv[i]), other = std::atoi(argv[i + 1]);
    for (const int device : {one, other}) fcntl(device, F_SETFL, O_NONBLOCK);
    ways.push_back({one, other, std::atoll(argv[i + 2])});
    ways.push_back({other, one, std::atoll(argv[i + 2])});
  }
  std::vector<pollfd> readable{{0, 0, 0}};  // of the standard input its end alone
  for (const Way& way : ways) readable.push_back({way.from, POLLIN, 0});
  std::vector<std::vector<char>> spare;
  for (;;) {
    std::int64_t next_ns = INT64_MAX;
    for (const Way& way : ways)
      if (!way.packets.empty()) next_ns = std::min(next_ns, way.packets.front().due_ns);
    const std::int64_t wait_ns = std::max<std::int64_t>(next_ns - now_ns(), 0);
    const timespec wait{static_cast<time_t>(wait_ns / 1000000000),
                        static_cast<long>(wait_ns % 1000000000)};
    const int ready =
        ppoll(readable.data(), readable.size(), next_ns == INT64_MAX ? nullptr : &wait, nullptr);
    if (ready < 0 && errno != EINTR) return 1;
    if (readable[0].revents) return 0;
    for (std::size_t i = 0; i < ways.size(); ++i)
      if (ready > 0 && readable[i + 1].revents) ways[i].take(spare);
    for (Way& way : ways) way.give(spare);
  }
}
