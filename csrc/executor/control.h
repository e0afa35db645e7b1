// The control messages between engines, and their bytes on the wire.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <variant>

#include "executor/call.h"

namespace patallreduce {

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

using Message = std::variant<Hello, Announcement, Pulse, Abort, Bye>;

std::string encode(const Message& message);
// Nothing if the bytes are malformed: lengths and enumerators are checked before use.
std::optional<Message> decode(const std::string& bytes, int ranks);

}  // namespace patallreduce
