// A stranger on the network: sees what ranks send over UCX, holds it up, changes and repeats it.
#include <cstring>

#include "clock.h"
#include "over_ucx.h"

namespace patallreduce::native {

using transport::Events;
using transport::Ucx;
using transport::UcxLibrary;

namespace {

struct Control {
  ucp_ep_h connection;
  unsigned id;
  std::string header;
  std::string bytes;
};
struct Tagged {
  ucp_ep_h connection;
  ucp_tag_t tag;
  std::string bytes;
};

// What the ranks wanted to send; held up, it does not leave.
bool held_up;
std::vector<Control> control;
std::vector<Tagged> tagged;
decltype(UcxLibrary::ucp_am_send_nbx) am_send;
decltype(UcxLibrary::ucp_tag_send_nbx) tag_send;

std::string text(const void* data, std::size_t bytes) {
  return {static_cast<const char*>(data), bytes};
}

ucs_status_ptr_t seen_am_send(ucp_ep_h connection, unsigned id, const void* header,
                              std::size_t header_bytes, const void* data, std::size_t bytes,
                              const ucp_request_param_t* param) {
  control.push_back({connection, id, text(header, header_bytes), text(data, bytes)});
  if (held_up) return nullptr;
  return am_send(connection, id, header, header_bytes, data, bytes, param);
}

ucs_status_ptr_t seen_tag_send(ucp_ep_h connection, const void* data, std::size_t bytes,
                               ucp_tag_t tag, const ucp_request_param_t* param) {
  tagged.push_back({connection, tag, text(data, bytes)});
  if (held_up) return nullptr;
  return tag_send(connection, data, bytes, tag, param);
}

// Three ranks, all they heard, and what a stranger can do to them.
class World {
 public:
  std::vector<std::shared_ptr<Ucx>> ranks;
  Events heard[3];

  World(const UcxLibrary& library, Random& random, const transport::UcxChoice& choice = {})
      : ranks(over_ucx(library, 3, random, choice)), library_(library), random_(random) {}
  ~World() {
    held_up = false;
    for (const auto& rank : ranks) rank->close(0.1);
  }

  // What `send` would have sent.
  template <typename Seen, typename Send>
  Seen hold_up(const std::vector<Seen>& seen, Send send) {
    held_up = true;
    send();
    held_up = false;
    return seen.back();
  }
  Control control_held_up(int from, int to, const std::string& bytes) {
    return hold_up(control, [&] { ranks[from]->control(to, bytes); });
  }

  void send(const Control& one) {
    ucp_request_param_t param{};
    param.op_attr_mask = UCP_OP_ATTR_FIELD_FLAGS;
    param.flags = UCP_AM_SEND_FLAG_EAGER;
    complete(am_send(one.connection, one.id, one.header.data(), one.header.size(), one.bytes.data(),
                     one.bytes.size(), &param));
  }
  void send(const Tagged& one) {
    const ucp_request_param_t param{};
    complete(tag_send(one.connection, one.bytes.data(), one.bytes.size(), one.tag, &param));
  }

  // All that was sent from rank 1 before has been heard.
  void settle() {
    const std::string now = "settled " + std::to_string(++settled_);
    for (const int to : {0, 2}) {
      ranks[1]->control(to, now);
      const double until_s = now_s() + 20;
      while (heard[to].control.empty() || heard[to].control.back().bytes != now) {
        turn();
        CHECK(now_s() < until_s);
      }
      heard[to].control.pop_back();
    }
    for (int i = 0; i < 5; ++i) turn();  // an offer is looked at in a turn of its own
  }
  void turn() {
    for (int rank = 0; rank < 3; ++rank) ranks[rank]->progress(heard[rank]);
  }
  bool nothing_heard() {
    settle();
    return heard[0].empty() && heard[2].empty();
  }
  bool heard_only(int to, int from, const std::string& bytes) {
    settle();
    const auto got = std::move(heard[to].control);
    heard[to].clear();
    return got.size() == 1 && got[0].from == from && got[0].bytes == bytes;
  }
  // One bit of it.
  void change(std::string& text, std::size_t byte) {
    text[byte] = static_cast<char>(text[byte] ^ 1 << pick(random_, 0, 7));
  }

 private:
  void complete(ucs_status_ptr_t handle) {
    if (!UCS_PTR_IS_PTR(handle)) return;
    while (library_.ucp_request_check_status(handle) == UCS_INPROGRESS) turn();
    library_.ucp_request_free(handle);
  }

  const UcxLibrary& library_;
  Random& random_;
  int settled_ = 0;
};

void what_was_changed_is_dropped(World& world) {
  const Control genuine = world.control_held_up(1, 0, "from rank 1");
  for (std::size_t byte = 0; byte < genuine.header.size(); ++byte) {
    Control forged = genuine;
    world.change(forged.header, byte);
    world.send(forged);
  }
  for (std::size_t byte = 0; byte < genuine.bytes.size(); ++byte) {
    Control forged = genuine;
    world.change(forged.bytes, byte);
    world.send(forged);
  }
  for (const std::string bytes : {"from rank 10", "from rank ", ""}) {
    Control forged = genuine;
    forged.bytes = bytes;
    world.send(forged);
  }
  CHECK(world.nothing_heard());
}

void what_was_heard_is_dropped_when_repeated(World& world) {
  const Control early = world.control_held_up(1, 0, "early");
  const Control late = world.control_held_up(1, 0, "late");
  world.send(early);
  CHECK(world.heard_only(0, 1, "early"));
  world.send(early);
  world.send(late);  // settle() sent another meanwhile
  CHECK(world.nothing_heard());
}

void what_is_another_connections_is_dropped(World& world) {
  const Control other = world.control_held_up(1, 2, "to rank 2");
  const Control back = world.control_held_up(0, 1, "to rank 1");
  Control forged = world.control_held_up(1, 0, "to rank 0");
  const ucp_ep_h to_0 = forged.connection;
  forged.connection = other.connection;
  world.send(forged);
  forged = other;
  forged.connection = to_0;
  world.send(forged);
  forged = back;
  forged.connection = to_0;
  world.send(forged);
  CHECK(world.nothing_heard());
}

// One process reads no memory of its own, so a genuine offer loses its sender.
void offers_are_proved(World& world) {
  constexpr std::size_t bytes = 64 << 10;
  std::string data(bytes, 'x');
  world.ranks[0]->set_direct({1});
  world.ranks[1]->set_direct({0});
  const auto offer = [&](std::uint64_t tag) {
    return world.hold_up(tagged, [&] { world.ranks[1]->send(0, tag, data.data(), bytes, tag); });
  };
  const Tagged genuine = offer(1), other = offer(2);
  CHECK(genuine.bytes.size() < 100);
  world.ranks[0]->recv(1, 1, data.data(), bytes, 3);
  for (std::size_t byte = 0; byte < genuine.bytes.size(); byte += 3) {
    Tagged forged = genuine;
    world.change(forged.bytes, byte);
    world.send(forged);
    CHECK(world.nothing_heard());
  }
  world.send(Tagged{genuine.connection, genuine.tag, other.bytes});
  CHECK(world.nothing_heard());
  world.send(genuine);
  world.settle();
  CHECK(world.heard[0].lost.size() == 1 && world.heard[0].lost[0].rank == 1);
  CHECK(world.heard[0].lost[0].reason == "its memory can no longer be read");
}

void divisions_are_proved(World& world) {
  constexpr std::size_t bytes = 32 << 10;
  const std::string data(bytes, 'x');
  std::string received(bytes, 'y');
  world.hold_up(tagged, [&] { world.ranks[1]->send(0, 1, data.data(), bytes, 2); });
  const std::vector<Tagged> genuine(tagged.end() - 3, tagged.end());  // before its two parts
  CHECK(genuine[0].bytes.size() < 100 && genuine[1].bytes.size() == bytes / 2);
  world.ranks[0]->recv(1, 1, received.data(), bytes, 3);
  for (std::size_t byte = 0; byte < genuine[0].bytes.size(); ++byte) {
    Tagged forged = genuine[0];
    world.change(forged.bytes, byte);
    world.send(forged);
    CHECK(world.nothing_heard());
  }
  for (const Tagged& one : genuine) world.send(one);
  world.settle();
  CHECK(world.heard[0].finished == std::vector<transport::Token>{3} && received == data);
}

void tags_are_each_connections_own(World& world) {
  const std::string data(100, 'x');
  constexpr auto caller = (std::uint64_t{1} << transport::Marks::tag_bits) - 1;
  const auto seen = [&](int from, int to, std::uint64_t tag) {
    const Tagged one = world.hold_up(
        tagged, [&] { world.ranks[from]->send(to, tag, data.data(), data.size(), tag); });
    CHECK(one.tag >> transport::Marks::tag_bits == std::uint64_t(from));
    return one.tag & caller;
  };
  const std::uint64_t first = seen(1, 0, 5);
  CHECK(first == seen(1, 0, 5) && first != 5);
  for (const std::uint64_t other : {seen(1, 2, 5), seen(0, 1, 5), seen(2, 0, 5)})
    CHECK((first ^ other) != 0 && (first ^ other) != (seen(1, 0, 6) ^ seen(1, 2, 6)));
  CHECK((first ^ seen(1, 0, 4)) != 1);
}

}  // namespace

void test_strangers(Random& random, const std::string& libucp) {
  UcxLibrary library = UcxLibrary::open(libucp);
  am_send = library.ucp_am_send_nbx;
  tag_send = library.ucp_tag_send_nbx;
  library.ucp_am_send_nbx = seen_am_send;
  library.ucp_tag_send_nbx = seen_tag_send;
  for (const auto& test :
       {what_was_changed_is_dropped, what_was_heard_is_dropped_when_repeated,
        what_is_another_connections_is_dropped, offers_are_proved, tags_are_each_connections_own}) {
    World world(library, random);
    test(world);
  }
  World several_connections(library, random, {"tcp,self", "", 3});
  divisions_are_proved(several_connections);
}

}  // namespace patallreduce::native
