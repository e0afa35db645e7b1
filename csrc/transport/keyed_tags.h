// What messages carry so that none of other communicators is taken, and under a secret key so that
// strangers can neither make nor repeat them: tags and codes that depend on a key of the ranks, on
// the sender and on the receiver.
//
// Codes are SipHash-2-4 (Aumasson and Bernstein, INDOCRYPT 2012), made for short messages. Tags are
// permuted by a balanced Feistel network of four rounds (Luby and Rackoff, SIAM J. Comput. 17,
// 1988) with SipHash as its round function, so tags that differ stay different.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>

namespace patallreduce::transport {

struct Key {
  std::uint64_t low = 0;
  std::uint64_t high = 0;
  // If not, strangers may know it: then tags and codes tell communicators apart and prove nothing,
  // which costs nothing.
  bool secret = true;
};

class SipHash {
 public:
  explicit SipHash(const Key& key)
      : v0_(key.low ^ 0x736f6d6570736575),
        v1_(key.high ^ 0x646f72616e646f6d),
        v2_(key.low ^ 0x6c7967656e657261),
        v3_(key.high ^ 0x7465646279746573) {}

  // The message's next 8 bytes.
  void mix(std::uint64_t word) {
    v3_ ^= word;
    rounds<2>();
    v0_ ^= word;
    bytes_ += sizeof word;
  }

  // The hash of the message whose last bytes these are.
  std::uint64_t end(const void* data, std::size_t bytes) {
    const auto* at = static_cast<const unsigned char*>(data);
    std::uint64_t word = 0;
    for (; bytes >= sizeof word; bytes -= sizeof word, at += sizeof word) {
      std::memcpy(&word, at, sizeof word);
      mix(word);
    }
    word = 0;
    if (bytes > 0) std::memcpy(&word, at, bytes);
    return end(word, bytes);
  }

  // The same of the up to 7 lowest bytes of `word`.
  std::uint64_t end(std::uint64_t word, std::size_t bytes) {
    mix(word | (bytes_ + bytes) << 56);
    v2_ ^= 0xff;
    rounds<4>();
    return v0_ ^ v1_ ^ v2_ ^ v3_;
  }

 private:
  template <int count>
  void rounds() {
    const auto turned = [](std::uint64_t word, int bits) {
      return word << bits | word >> (64 - bits);
    };
    for (int i = 0; i < count; ++i) {
      v0_ += v1_;
      v2_ += v3_;
      v1_ = turned(v1_, 13) ^ v0_;
      v3_ = turned(v3_, 16) ^ v2_;
      v0_ = turned(v0_, 32);
      v2_ += v1_;
      v0_ += v3_;
      v1_ = turned(v1_, 17) ^ v2_;
      v3_ = turned(v3_, 21) ^ v0_;
      v2_ = turned(v2_, 32);
    }
  }

  std::uint64_t v0_, v1_, v2_, v3_;
  std::uint64_t bytes_ = 0;
};

// Of the messages from one rank to another. Each direction of each connection has keys of its own:
// who has seen all of its messages knows nothing of another's.
class Marks {
 public:
  static constexpr int tag_bits = 50;

  Marks(const Key& key, int sender, int receiver)
      : secret_(key.secret),
        tags_{word_of(key, 0, sender, receiver), word_of(key, 1, sender, receiver)},
        codes_{word_of(key, 2, sender, receiver), word_of(key, 3, sender, receiver)} {}

  // Another number of 50 bits for each `tag` of 50 bits.
  std::uint64_t tag(std::uint64_t tag) const {
    if (!secret_) return tag ^ (tags_.low & ((std::uint64_t{1} << tag_bits) - 1));
    constexpr int half_bits = tag_bits / 2;
    constexpr std::uint64_t half = (1u << half_bits) - 1;
    std::uint64_t left = tag >> half_bits;
    std::uint64_t right = tag & half;
    for (std::uint64_t round = 0; round < 4; ++round) {
      const std::uint64_t mixed = left ^ (SipHash(tags_).end(round << 32 | right, 7) & half);
      left = right;
      right = mixed;
    }
    return left << half_bits | right;
  }

  // Proves that the sender sent these bytes, as a message of that kind with that number.
  std::uint64_t code(std::uint64_t kind, std::uint64_t number, const void* data,
                     std::size_t bytes) const {
    if (!secret_) return codes_.low;
    SipHash hash(codes_);
    hash.mix(kind);
    hash.mix(number);
    return hash.end(data, bytes);
  }

 private:
  static std::uint64_t word_of(const Key& key, std::uint64_t which, int sender, int receiver) {
    SipHash hash(key);
    hash.mix(which);
    hash.mix(static_cast<std::uint64_t>(sender));
    hash.mix(static_cast<std::uint64_t>(receiver));
    return hash.end(nullptr, 0);
  }

  bool secret_;
  Key tags_;
  Key codes_;
};

}  // namespace patallreduce::transport
