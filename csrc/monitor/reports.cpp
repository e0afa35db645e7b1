#include "monitor/reports.h"

#include "wire.h"

namespace patallreduce::monitor {

using schedule::get_key;
using schedule::PlannedBucket;
using schedule::put;
using schedule::ScheduleKey;

namespace {

constexpr std::uint32_t max_buckets = 1 << 14;

void put(Writer& out, const IterationId& id) {
  out.put(id.loop);
  out.put(id.iteration);
}

IterationId get_id(Reader& in) {
  IterationId id;
  id.loop = in.get<std::int64_t>();
  id.iteration = in.get<std::int64_t>();
  in.require(id.loop >= 0 && id.iteration >= 0);
  return id;
}

std::uint32_t get_count(Reader& in) {
  const auto count = in.get<std::uint32_t>();
  in.require(count <= max_buckets);
  return in.good() ? count : 0;
}

void put(Writer& out, const std::vector<double>& values) {
  out.put(static_cast<std::uint32_t>(values.size()));
  for (const double value : values) out.put(value);
}

std::vector<double> get_values(Reader& in) {
  std::vector<double> values(get_count(in));
  for (double& value : values) value = in.get<double>();
  return values;
}

void put(Writer& out, const BucketSize& size) {
  out.put(size.elements);
  out.put(size.element_bytes);
}

BucketSize get_size(Reader& in) {
  BucketSize size;
  size.elements = in.get<std::uint64_t>();
  size.element_bytes = in.get<std::uint32_t>();
  return size;
}

struct Encoder {
  Writer& out;
  void kind(std::uint8_t value) { out.put(value); }
  void operator()(const Started& m) {
    kind(0);
    put(out, m.id);
    out.put(m.at_s);
    put(out, m.finish_s);
  }
  void operator()(const EdgeReached& m) {
    kind(1);
    put(out, m.id);
    out.put(m.fraction);
    out.put(m.at_s);
  }
  void operator()(const Asked& m) {
    kind(2);
    put(out, m.id);
    out.put(m.at_s);
  }
  void operator()(const Arrived& m) {
    kind(3);
    put(out, m.id);
    put(out, m.arrivals_s);
    out.put(static_cast<std::uint32_t>(m.sizes.size()));
    for (const BucketSize& size : m.sizes) put(out, size);
  }
  void operator()(const HostUsed& m) {
    kind(7);
    put(out, m.id);
    for (const double value : {m.host.waited, m.host.throttled, m.host.stolen, m.host.faults_per_s})
      out.put(value);
  }
  void operator()(const LinkUsed& m) {
    kind(8);
    put(out, m.id);
    out.put(m.since);
    out.put(static_cast<std::uint32_t>(m.flows.size()));
    for (const Flow& flow : m.flows) {
      out.put(static_cast<std::int32_t>(flow.to));
      out.put(flow.bytes);
      out.put(flow.busy_s);
    }
  }
  void operator()(const Report& m) { std::visit(*this, m); }
  void operator()(const Ping& m) {
    kind(4);
    out.put(m.sent_s);
  }
  void operator()(const Pong& m) {
    kind(5);
    out.put(m.sent_s);
    out.put(m.leader_s);
  }
  void operator()(const Plan& m) {
    kind(6);
    put(out, IterationId{m.loop, m.iteration});
    out.put(static_cast<std::uint32_t>(m.buckets.size()));
    const ScheduleKey* before = nullptr;
    for (const PlannedBucket& bucket : m.buckets) {
      put(out, BucketSize{bucket.elements, bucket.element_bytes, {}, 0});
      put(out, bucket.key, before);
      before = &bucket.key;
    }
  }
};

MonitorMessage get(Reader& in, int ranks) {
  switch (in.get<std::uint8_t>()) {
    case 0: {
      Started m{get_id(in), in.get<double>(), {}};
      m.finish_s = get_values(in);
      return Report{std::move(m)};
    }
    case 1: {
      EdgeReached m{get_id(in), 0, 0};
      m.fraction = in.get<double>();
      m.at_s = in.get<double>();
      return Report{m};
    }
    case 2:
      return Report{Asked{get_id(in), in.get<double>()}};
    case 3: {
      Arrived m{get_id(in), get_values(in), {}};
      for (auto left = get_count(in); left > 0 && in.good(); --left)
        m.sizes.push_back(get_size(in));
      return Report{std::move(m)};
    }
    case 4:
      return Ping{in.get<double>()};
    case 5: {
      Pong m{};
      m.sent_s = in.get<double>();
      m.leader_s = in.get<double>();
      return m;
    }
    case 6: {
      const IterationId id = get_id(in);
      Plan plan{id.loop, id.iteration, {}};
      for (auto left = get_count(in); left > 0 && in.good(); --left) {
        const BucketSize size = get_size(in);
        const ScheduleKey* before = plan.buckets.empty() ? nullptr : &plan.buckets.back().key;
        plan.buckets.push_back({size.elements, size.element_bytes, get_key(in, ranks, before)});
      }
      return plan;
    }
    case 7: {
      HostUsed m{get_id(in), {}};
      Host& host = m.host;
      for (double* value : {&host.waited, &host.throttled, &host.stolen, &host.faults_per_s})
        *value = in.get<double>();
      return Report{m};
    }
    case 8: {
      LinkUsed m{get_id(in), in.get<std::int64_t>(), {}};
      for (auto left = get_count(in); left > 0 && in.good(); --left) {
        Flow flow{in.get<std::int32_t>(), in.get<double>(), in.get<double>()};
        in.require(flow.to >= 0 && flow.to < ranks);
        m.flows.push_back(flow);
      }
      return Report{std::move(m)};
    }
    default:
      in.require(false);
      return Ping{};
  }
}

}  // namespace

std::string encode(const MonitorMessage& message) {
  Writer out;
  std::visit(Encoder{out}, message);
  return std::move(out.bytes);
}

std::vector<MonitorMessage> decode_monitor_messages(const std::string& bytes, int ranks) {
  Reader in(bytes);
  std::vector<MonitorMessage> messages;
  while (in.good() && !in.finished()) messages.push_back(get(in, ranks));
  if (!in.good()) messages.clear();
  return messages;
}

}  // namespace patallreduce::monitor
