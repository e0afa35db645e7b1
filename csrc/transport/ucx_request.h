// What Ucx keeps of its peers and of messages under way.
#pragma once

#include <cstdint>
#include <string>

#include "transport/neighbour.h"
#include "transport/ucx.h"

namespace patallreduce::transport {

// Kinds of messages with a code; the first two are also the numbers of UCX's active messages.
constexpr unsigned control_id = 1;
constexpr unsigned acknowledgement_id = 2;
constexpr unsigned offer_id = 3;

// A tag is sender (14 bits), then the caller's tag (50 bits) permuted; the number of a control
// message is sender, then how many it has sent on this connection.
constexpr int number_bits = Marks::tag_bits;
constexpr int max_ranks = 1 << (64 - number_bits);

struct Ucx::Peer {
  Ucx* self;
  int rank;
  Marks to;
  Marks from;
  std::uint64_t sent = 0;   // number of the last control message to it
  std::uint64_t taken = 0;  // and of the last one from it
  ucp_ep_h endpoint = nullptr;
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
  enum class Kind { none, send, recv, control };

  Ucx* self;
  std::uint64_t index;
  std::uint64_t generation = 0;
  Kind kind = Kind::none;
  void* handle = nullptr;  // UCX's, while UCX works on it
  bool offered = false;    // one copy: until the acknowledgement, or until it is copied
  int peer = -1;
  Token token = 0;
  std::uint64_t tag = 0;  // the caller's, of a recv
  void* data = nullptr;
  std::size_t bytes = 0;
  Offer offer{};
  std::string payload;  // of a control message
};

}  // namespace patallreduce::transport
