#include "executor/control.h"

#include <cmath>
#include <cstring>

namespace patallreduce {

namespace {

// Every segment takes a step, and an operation refuses as many steps as this: a larger announcement
// would only cost memory.
constexpr std::int32_t max_segments = 1 << 18;

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

void put_call(Writer& out, const Call& call) {
  out.put(call.count);
  out.put(call.dtype);
  out.put(call.op);
  out.put(call.label);
  out.put(call.key.algorithm);
  out.put(static_cast<std::int32_t>(call.key.segments));
  out.put(call.key.segment_time_s);
  out.put(static_cast<std::uint32_t>(call.key.arrivals_s.size()));
  for (const double arrival_s : call.key.arrivals_s) out.put(arrival_s);
}

Call get_call(Reader& in, int ranks) {
  Call call;
  call.count = in.get<std::uint64_t>();
  call.dtype = in.get<Dtype>();
  call.op = in.get<Op>();
  call.label = in.get<std::int64_t>();
  call.key.algorithm = in.text(64);
  call.key.segments = in.get<std::int32_t>();
  call.key.segment_time_s = in.get<double>();
  const auto arrivals = in.get<std::uint32_t>();
  in.require(call.dtype <= Dtype::uint8 && call.op <= Op::prod);
  in.require(call.count <= (std::uint64_t{1} << 48));
  in.require(call.key.segments >= 1 && call.key.segments < max_segments &&
             static_cast<std::uint64_t>(call.key.segments) <= call.count + 1);
  in.require(std::isfinite(call.key.segment_time_s) && call.key.segment_time_s >= 0);
  in.require(arrivals == 0 || arrivals == static_cast<std::uint32_t>(ranks));
  for (std::uint32_t i = 0; in.good() && i < arrivals; ++i) {
    call.key.arrivals_s.push_back(in.get<double>());
    in.require(std::isfinite(call.key.arrivals_s.back()) && call.key.arrivals_s.back() >= 0);
  }
  return call;
}

struct Encoder {
  Writer& out;
  void operator()(const Hello& m) { out.put(m.version); }
  void operator()(const Announcement& m) {
    out.put(m.seq);
    put_call(out, m.call);
  }
  void operator()(const Pulse& m) {
    out.put(m.called);
    out.put(static_cast<std::uint8_t>(m.answer));
  }
  void operator()(const Abort& m) {
    out.put(m.kind);
    out.put(m.rank);
    out.put(m.what);
  }
  void operator()(const Bye& m) { out.put(m.called); }
};

}  // namespace

std::string encode(const Message& message) {
  Writer out;
  out.put(static_cast<std::uint8_t>(message.index()));
  std::visit(Encoder{out}, message);
  return std::move(out.bytes);
}

std::optional<Message> decode(const std::string& bytes, int ranks) {
  Reader in(bytes);
  std::optional<Message> message;
  switch (in.get<std::uint8_t>()) {
    case 0:
      message = Hello{in.get<std::uint32_t>()};
      break;
    case 1: {
      Announcement announcement{};
      announcement.seq = in.get<std::uint64_t>();
      announcement.call = get_call(in, ranks);
      message = std::move(announcement);
      break;
    }
    case 2: {
      Pulse pulse{};
      pulse.called = in.get<std::uint64_t>();
      pulse.answer = in.get<std::uint8_t>() != 0;
      message = pulse;
      break;
    }
    case 3: {
      Abort abort{};
      abort.kind = in.get<std::uint8_t>();
      abort.rank = in.get<std::int32_t>();
      abort.what = in.text(16 * 1024);
      in.require(abort.rank >= -1 && abort.rank < ranks);
      message = std::move(abort);
      break;
    }
    case 4:
      message = Bye{in.get<std::uint64_t>()};
      break;
    default:
      return std::nullopt;
  }
  if (!in.finished()) return std::nullopt;
  return message;
}

}  // namespace patallreduce
