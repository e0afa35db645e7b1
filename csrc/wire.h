// Bytes of messages on the wire: fixed-size values and counted text, every length checked; and
// hashes that ranks compare.
#pragma once

#include <cstdint>
#include <cstring>
#include <string>
#include <type_traits>

namespace patallreduce {

// FNV-1a: the same on every rank.
struct Hash {
  void mix(const void* data, std::size_t bytes) {
    for (std::size_t i = 0; i < bytes; ++i)
      value = (value ^ static_cast<const unsigned char*>(data)[i]) * 0x100000001b3;
  }
  template <typename T>
  void mix(T number) {
    static_assert(std::has_unique_object_representations_v<T>);
    mix(&number, sizeof number);
  }
  std::uint64_t value = 0xcbf29ce484222325;
};

class Writer {
 public:
  template <typename T>
  void put(T value) {
    static_assert(std::is_trivially_copyable_v<T>);
    bytes.append(reinterpret_cast<const char*>(&value), sizeof value);
  }
  void put(const std::string& text) {
    put(static_cast<std::uint32_t>(text.size()));
    bytes += text;
  }
  std::string bytes;
};

class Reader {
 public:
  explicit Reader(const std::string& bytes) : bytes_(bytes) {}
  template <typename T>
  T get() {
    T value{};
    if (need(sizeof value)) std::memcpy(&value, bytes_.data() + at_ - sizeof value, sizeof value);
    return value;
  }
  std::string text(std::size_t limit) {
    const auto length = get<std::uint32_t>();
    if (length > limit || !need(length)) {
      good_ = false;
      return {};
    }
    return bytes_.substr(at_ - length, length);
  }
  void require(bool condition) { good_ = good_ && condition; }
  bool good() const { return good_; }
  bool finished() const { return good_ && at_ == bytes_.size(); }

 private:
  bool need(std::size_t bytes) {
    good_ = good_ && bytes <= bytes_.size() - at_;
    if (good_) at_ += bytes;
    return good_;
  }
  const std::string& bytes_;
  std::size_t at_ = 0;
  bool good_ = true;
};

}  // namespace patallreduce
