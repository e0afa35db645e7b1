// What Ucx keeps of its peers and of messages under way.
#pragma once

#include <cstdint>
#include <string>

#include "transport/neighbour.h"
#include "transport/ucx.h"

namespace patallreduce::transport {

// Numbers of the active messages.
constexpr unsigned control_id = 1;
constexpr unsigned acknowledgement_id = 2;

// A tag is sender (14 bits), then the caller's tag (50 bits) masked with the communicator's token:
// its epoch, so that nothing of another communicator ever matches.
constexpr int caller_bits = 50;
constexpr int max_ranks = 1 << (64 - caller_bits);

struct Ucx::Peer {
  Ucx* self;
  int rank;
  ucp_ep_h endpoint = nullptr;
  Neighbour neighbour;
  bool direct = false;
  bool lost = false;
};

struct Ucx::Request {
  struct Offer {
    std::uint64_t address;
    std::uint64_t bytes;
    std::uint64_t index;  // of the sender's request
    std::uint32_t generation;
  };
  enum class Kind { none, send, recv, control };

  Ucx* self;
  std::uint64_t index;
  std::uint32_t generation = 0;
  Kind kind = Kind::none;
  void* handle = nullptr;  // UCX's, while UCX works on it
  bool offered = false;    // one copy: until the acknowledgement, or until it is copied
  int peer = -1;
  Token token = 0;
  void* data = nullptr;
  std::size_t bytes = 0;
  Offer offer{};
  std::string payload;  // of a control message
};

}  // namespace patallreduce::transport
