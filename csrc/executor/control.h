// The control messages between engines, and their bytes on the wire.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "executor/call.h"
#include "executor/lineup.h"

namespace patallreduce::executor {

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

// The communicator failed. kind: see Failure.
struct Abort {
  std::uint8_t kind;
  std::int32_t rank;
  std::string what;
};

// The sender closes after `called` collectives, all of them finished.
struct Bye {
  std::uint64_t called;
};

// There will be no plans after these iterations; until then the sender's announcements tell them.
struct PlansEnd {
  std::string reason;
  std::vector<std::pair<std::int64_t, std::int64_t>> last;  // stream, iteration; absent: none
};

// Who stands where in dynamic collective `seq`, as far as it matters to the receiver.
struct Places {
  std::uint64_t seq;
  std::vector<Place> places;
};

using Message = std::variant<Hello, Announcement, Pulse, Abort, Bye, PlansEnd, Places>;

std::string encode(const Message& message);
// Nothing if the bytes are malformed: lengths and enumerators are checked before use.
std::optional<Message> decode(const std::string& bytes, int ranks);

}  // namespace patallreduce::executor
