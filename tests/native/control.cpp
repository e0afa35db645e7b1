// The decoder of control messages: what is encoded comes back; mutated bytes never do harm.
#include <algorithm>

#include "check.h"

namespace patallreduce::native {

using executor::Abort;
using executor::Announcement;
using executor::BindPlaces;
using executor::Bye;
using executor::ByeHeard;
using executor::Call;
using executor::decode;
using executor::Hello;
using executor::Message;
using executor::PlansEnd;
using executor::Pulse;
using reduction::Dtype;
using reduction::Op;

namespace {

constexpr int ranks = 4;

std::vector<Message> samples(Random& random) {
  Call call = call_of(pick(random, 8, 1 << 20), "slt", 8, Dtype::bfloat16, Op::avg);
  call.label = pick(random, -1, 50);
  if (pick(random, 0, 1)) call.key.arrivals_s = {0, 0.5, 1e-3, 7};
  return {
      Hello{1},
      Announcement{random() >> 20, call},
      Pulse{random(), true},
      Abort{static_cast<std::uint8_t>(pick(random, 0, 3)), pick(random, -1, ranks - 1),
            std::string(pick(random, 0, 300), 'x'), random(), std::uint32_t(pick(random, 0, 4))},
      Bye{random()},
      ByeHeard{},
      BindPlaces{random(), {{pick(random, 0, ranks - 1), pick(random, 0, ranks - 1)}, {0, 0}}},
      PlansEnd{"ended", {{1, 7}, {0, static_cast<std::int64_t>(random() >> 1)}}}};
}

std::string mutated(std::string bytes, Random& random) {
  for (int changes = pick(random, 1, 4); changes > 0; --changes) {
    const int at = pick(random, 0, static_cast<int>(bytes.size()));
    switch (pick(random, 0, 3)) {
      case 0:
        bytes.resize(at);
        break;
      case 1:
        bytes.insert(at, pick(random, 1, 20), static_cast<char>(random()));
        break;
      case 2:
        bytes.erase(at, pick(random, 1, 8));
        break;
      default:
        if (at < static_cast<int>(bytes.size())) bytes[at] = static_cast<char>(random());
    }
  }
  return bytes;
}

void check_bounds(const Message& message) {
  if (const auto* abort = std::get_if<Abort>(&message))
    CHECK(abort->rank >= -1 && abort->rank < ranks && abort->what.size() <= 16 * 1024);
  if (const auto* told = std::get_if<BindPlaces>(&message))
    for (const executor::Place& place : told->places)
      CHECK(place.place >= 0 && place.place < ranks && place.rank >= 0 && place.rank < ranks);
  const auto* announcement = std::get_if<Announcement>(&message);
  if (!announcement) return;
  const Call& call = announcement->call;
  CHECK(call.dtype <= Dtype::uint8 && call.op <= Op::prod);
  CHECK(call.key.segments >= 1 && call.key.segments < 1 << 18);
  CHECK(call.key.arrivals_s.empty() || call.key.arrivals_s.size() == ranks);
  for (const double arrival_s : call.key.arrivals_s) CHECK(arrival_s >= 0);
}

}  // namespace

void test_control(Random& random) {
  int survived = 0;
  for (int i = 0; i < 20000; ++i) {
    for (const Message& message : samples(random)) {
      const std::string bytes = encode(message);
      const auto back = decode(bytes, ranks);
      CHECK(back && back->index() == message.index() && encode(*back) == bytes);
      if (const auto odd = decode(mutated(bytes, random), ranks)) {
        check_bounds(*odd);
        ++survived;
      }
    }
  }
  CHECK(survived > 0);
  // An announcement of more segments than any rank could execute is refused before it is built.
  CHECK(!decode(encode(Announcement{0, call_of(1 << 30, "slt", 1 << 29)}), ranks));
}

}  // namespace patallreduce::native
