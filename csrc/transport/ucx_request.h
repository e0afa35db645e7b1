// What Ucx keeps of its peers and of messages under way.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "transport/neighbour.h"
#include "transport/ucx.h"

namespace patallreduce::transport {

// Kinds of messages with a code; the first two are also the numbers of UCX's active messages.
constexpr unsigned control_id = 1;
constexpr unsigned acknowledgement_id = 2;
constexpr unsigned offer_id = 3;
constexpr unsigned division_id = 4;

// A tag is part (4 bits; 0: a whole message), sender (10 bits), then the caller's tag (50 bits)
// permuted; the number of a control message is sender, then how many it has sent to this rank.
constexpr int number_bits = Marks::tag_bits;
constexpr int part_bits = 4;
constexpr int most_parts = (1 << part_bits) - 1;
constexpr int most_connections = most_parts + 1;  // one for control
constexpr int sender_bits = 64 - number_bits - part_bits;
constexpr int max_ranks = 1 << sender_bits;

struct Ucx::Peer {
  Ucx* self;
  int rank;
  Marks to;
  Marks from;
  std::uint64_t sent = 0;             // number of the last control message to it
  std::uint64_t taken = 0;            // and of the last one from it
  std::vector<ucp_ep_h> endpoints{};  // one of each connection; control goes by the first
  Neighbour neighbour{};
  bool direct = false;
  bool lost = false;
};

struct Ucx::Request {
  struct Offer {
    std::uint64_t address;
    std::uint64_t bytes;
    std::uint64_t index;  // of the sender's request
    std::uint64_t generation;
    std::uint64_t code;  // of all before, with the tag for a number
  };
  // That a message comes in parts.
  struct Division {
    std::uint64_t bytes;  // of the message
    std::uint64_t parts;
    std::uint64_t code;  // of all before, with the tag for a number
  };
  Ucx* self;
  std::uint64_t index;
  std::uint64_t generation = 0;
  RequestKind kind = RequestKind::none;
  void* handle = nullptr;    // UCX's, while UCX works on it
  bool offered = false;      // one copy: until the acknowledgement, or until it is copied
  bool divided = false;      // a recv: from the division's arrival until its parts are awaited
  int parts = 0;             // that have not ended
  Request* whole = nullptr;  // of a part
  bool failed = false;
  int peer = -1;
  Token token = 0;
  std::uint64_t tag = 0;  // the caller's
  int part = 0;           // from 1; 0: a message that is not part of another
  void* data = nullptr;
  std::size_t bytes = 0;
  Offer offer{};
  Division division{};
  std::string payload;  // of a control message
};

}  // namespace patallreduce::transport
