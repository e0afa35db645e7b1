// The control messages between engines, and their bytes on the wire.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "executor/call.h"
#include "executor/places.h"

namespace patallreduce::executor {

// Of these messages, of tags, and of what schedules are made from.
constexpr std::uint32_t protocol_version = 6;

// The sender's transport works and its library speaks this version.
struct Hello {
  std::uint32_t version;
};

// The sender has arrived at collective `seq` with `call`.
struct Announcement {
  std::uint64_t seq;
  Call call;
};

// The sender is alive; it has called `called` collectives. `answer`: send one back.
struct Pulse {
  std::uint64_t called;
  bool answer;
};

// The communicator failed: a Failure, as the sender noticed it, or its verdict of all that it
// heard.
struct Abort {
  std::uint8_t kind;
  std::int32_t rank;
  std::string what;
  std::uint64_t completed;
  std::uint32_t heard;  // what this is of, as Ending's verdict; 0: of what the sender noticed
};

// The sender closes after `called` collectives, all of them finished.
struct Bye {
  std::uint64_t called;
};

// There will be no plans after these iterations; until then the sender's announcements tell them.
struct PlansEnd {
  std::string reason;
  std::vector<std::pair<std::int64_t, std::int64_t>> last;  // loop, iteration; absent: none
};

// Who is at which place of dynamic collective `seq`, as far as it matters to the receiver.
struct BindPlaces {
  std::uint64_t seq;
  std::vector<Place> places;
};

// The sender has heard the receiver's Bye, and all that was sent before it.
struct ByeHeard {};

using Message =
    std::variant<Hello, Announcement, Pulse, Abort, Bye, PlansEnd, BindPlaces, ByeHeard>;

std::string encode(const Message& message);
// Nothing if the bytes are malformed: lengths and enumerators are checked before use.
std::optional<Message> decode(const std::string& bytes, int ranks);

}  // namespace patallreduce::executor
