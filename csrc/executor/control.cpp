#include "executor/control.h"

#include "executor/failure.h"
#include "wire.h"

namespace patallreduce::executor {

using schedule::get_key;
using schedule::put;

namespace {

void put_call(Writer& out, const Call& call) {
  out.put(call.count);
  out.put(call.carrier);
  out.put(call.dtype);
  out.put(call.op);
  out.put(call.label);
  out.put(call.loop);
  out.put(call.iteration);
  put(out, call.key);
}

Call get_call(Reader& in, int ranks) {
  Call call;
  call.count = in.get<std::uint64_t>();
  call.carrier = in.get<Carrier>();
  call.dtype = in.get<Dtype>();
  call.op = in.get<Op>();
  call.label = in.get<std::int64_t>();
  call.loop = in.get<std::int64_t>();
  call.iteration = in.get<std::int64_t>();
  call.key = get_key(in, ranks);
  in.require(call.carrier <= Carrier::streams);
  in.require(call.dtype <= Dtype::uint8 && call.op <= Op::prod);
  in.require(call.count <= (std::uint64_t{1} << 48));
  in.require(static_cast<std::uint64_t>(call.key.segments) <= call.count + 1);
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
    out.put(m.completed);
    out.put(m.heard);
  }
  void operator()(const Bye& m) { out.put(m.called); }
  void operator()(const PlansEnd& m) {
    out.put(m.reason);
    out.put(static_cast<std::uint32_t>(m.last.size()));
    for (const auto& [loop, iteration] : m.last) {
      out.put(loop);
      out.put(iteration);
    }
  }
  void operator()(const ByeHeard&) {}
  void operator()(const BindPlaces& m) {
    out.put(m.seq);
    out.put(static_cast<std::uint32_t>(m.places.size()));
    for (const Place& place : m.places) {
      out.put(place.place);
      out.put(place.rank);
    }
  }
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
      abort.completed = in.get<std::uint64_t>();
      abort.heard = in.get<std::uint32_t>();
      in.require(abort.kind <= static_cast<std::uint8_t>(Kind::mismatch));
      in.require(abort.rank >= -1 && abort.rank < ranks);
      message = std::move(abort);
      break;
    }
    case 4:
      message = Bye{in.get<std::uint64_t>()};
      break;
    case 5: {
      PlansEnd end;
      end.reason = in.text(4 * 1024);
      const auto loops = in.get<std::uint32_t>();
      for (std::uint32_t i = 0; in.good() && i < loops; ++i) {
        const auto loop = in.get<std::int64_t>();
        end.last.emplace_back(loop, in.get<std::int64_t>());
      }
      message = std::move(end);
      break;
    }
    case 6: {
      BindPlaces told{};
      told.seq = in.get<std::uint64_t>();
      const auto count = in.get<std::uint32_t>();
      for (std::uint32_t i = 0; in.good() && i < count; ++i) {
        Place place{};
        place.place = in.get<std::int32_t>();
        place.rank = in.get<std::int32_t>();
        in.require(place.place >= 0 && place.place < ranks);
        in.require(place.rank >= 0 && place.rank < ranks);
        told.places.push_back(place);
      }
      message = std::move(told);
      break;
    }
    case 7:
      message = ByeHeard{};
      break;
    default:
      return std::nullopt;
  }
  if (!in.finished()) return std::nullopt;
  return message;
}

}  // namespace patallreduce::executor
