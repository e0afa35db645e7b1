// Tags and codes under a key: SipHash as published, tags that differ stay different.
#include "transport/keyed_tags.h"

#include <set>

#include "check.h"

namespace patallreduce::native {

using transport::Key;
using transport::Marks;
using transport::SipHash;

namespace {

// SipHash-2-4 of the bytes 0, 1, 2, ..., none to 63 of them, under the key of the bytes 0 to 15:
// vectors.h of the reference implementation, https://github.com/veorq/SipHash.
constexpr std::uint64_t published[64] = {
    0x726fdb47dd0e0e31, 0x74f839c593dc67fd, 0x0d6c8009d9a94f5a, 0x85676696d7fb7e2d,
    0xcf2794e0277187b7, 0x18765564cd99a68d, 0xcbc9466e58fee3ce, 0xab0200f58b01d137,
    0x93f5f5799a932462, 0x9e0082df0ba9e4b0, 0x7a5dbbc594ddb9f3, 0xf4b32f46226bada7,
    0x751e8fbc860ee5fb, 0x14ea5627c0843d90, 0xf723ca908e7af2ee, 0xa129ca6149be45e5,
    0x3f2acc7f57c29bdb, 0x699ae9f52cbe4794, 0x4bc1b3f0968dd39c, 0xbb6dc91da77961bd,
    0xbed65cf21aa2ee98, 0xd0f2cbb02e3b67c7, 0x93536795e3a33e88, 0xa80c038ccd5ccec8,
    0xb8ad50c6f649af94, 0xbce192de8a85b8ea, 0x17d835b85bbb15f3, 0x2f2e6163076bcfad,
    0xde4daaaca71dc9a5, 0xa6a2506687956571, 0xad87a3535c49ef28, 0x32d892fad841c342,
    0x7127512f72f27cce, 0xa7f32346f95978e3, 0x12e0b01abb051238, 0x15e034d40fa197ae,
    0x314dffbe0815a3b4, 0x027990f029623981, 0xcadcd4e59ef40c4d, 0x9abfd8766a33735c,
    0x0e3ea96b5304a7d0, 0xad0c42d6fc585992, 0x187306c89bc215a9, 0xd4a60abcf3792b95,
    0xf935451de4f21df2, 0xa9538f0419755787, 0xdb9acddff56ca510, 0xd06c98cd5c0975eb,
    0xe612a3cb9ecba951, 0xc766e62cfcadaf96, 0xee64435a9752fe72, 0xa192d576b245165a,
    0x0a8787bf8ecb74b2, 0x81b3e73d20b49b6f, 0x7fa8220ba3b2ecea, 0x245731c13ca42499,
    0xb78dbfaf3a8d83bd, 0xea1ad565322a1a0b, 0x60e61c23a3795013, 0x6606d7e446282b93,
    0x6ca4ecb15c5f91e1, 0x9f626da15c9625f3, 0xe51b38608ef25f57, 0x958a324ceb064572,
};

void siphash_is_as_published() {
  const Key key{0x0706050403020100, 0x0f0e0d0c0b0a0908};
  unsigned char message[64];
  for (int i = 0; i < 64; ++i) message[i] = static_cast<unsigned char>(i);
  for (int bytes = 0; bytes < 64; ++bytes)
    CHECK(SipHash(key).end(message, std::size_t(bytes)) == published[bytes]);
  SipHash in_parts(key);
  in_parts.mix(0x0706050403020100);
  in_parts.mix(0x0f0e0d0c0b0a0908);
  CHECK(in_parts.end(0x1413121110, 5) == published[21]);
}

void tags_are_permuted(Random& random) {
  constexpr std::uint64_t all = std::uint64_t{1} << Marks::tag_bits;
  const Key key{random(), random()};
  const int sender = pick(random, 0, 5000), receiver = pick(random, 5001, 16000);
  const Marks marks(key, sender, receiver);
  // At random, and alike in all but their low or their high bits.
  std::set<std::uint64_t> tags{0, all - 1}, permuted;
  for (std::uint64_t i = 0; i < 4096; ++i) {
    tags.insert(random() % all);
    tags.insert(i);
    tags.insert(all - 1 - (i << 38));
  }
  const Marks others[] = {Marks({key.low ^ 1, key.high}, sender, receiver),
                          Marks({key.low, key.high ^ 1}, sender, receiver),
                          Marks(key, receiver, sender), Marks(key, sender + 1, receiver),
                          Marks(key, sender, receiver + 1)};
  int fixed = 0;
  int alike[5] = {};
  for (const std::uint64_t tag : tags) {
    CHECK(marks.tag(tag) < all);
    CHECK(marks.tag(tag) == Marks(key, sender, receiver).tag(tag));
    permuted.insert(marks.tag(tag));
    fixed += marks.tag(tag) == tag;
    for (int i = 0; i < 5; ++i) alike[i] += others[i].tag(tag) == marks.tag(tag);
  }
  CHECK(permuted.size() == tags.size());
  // By chance one in 90 billion.
  CHECK(fixed == 0);
  for (const int count : alike) CHECK(count == 0);
}

// Marks of a communicator, which cost nothing.
void nothing_is_proved_without_a_secret(Random& random) {
  constexpr std::uint64_t all = std::uint64_t{1} << Marks::tag_bits;
  const Key key{random(), random(), false};
  const Marks marks(key, 1, 2), other({key.low ^ 1, key.high, false}, 1, 2);
  const std::uint64_t mask = marks.tag(0);
  CHECK(mask < all && other.tag(0) != mask && Marks(key, 2, 1).tag(0) != mask);
  for (int i = 0; i < 100; ++i) {
    const std::uint64_t tag = random() % all;
    CHECK(marks.tag(tag) == (tag ^ mask));
    CHECK(marks.code(1, random(), &tag, sizeof tag) == marks.code(2, 0, nullptr, 0));
  }
  CHECK(marks.code(1, 0, nullptr, 0) != other.code(1, 0, nullptr, 0));
}

// The same on every machine, or protocol_version says so.
void tags_last() {
  const Marks marks({0x0706050403020100, 0x0f0e0d0c0b0a0908}, 1, 2);
  CHECK(marks.tag(0x123456789abcd) == 0x2334e0679bacb);
  CHECK(marks.code(1, 7, "control", 7) == 0xfd9499bed66616d9);
}

}  // namespace

void test_keyed_tags(Random& random) {
  siphash_is_as_published();
  tags_are_permuted(random);
  nothing_is_proved_without_a_secret(random);
  tags_last();
}

}  // namespace patallreduce::native
