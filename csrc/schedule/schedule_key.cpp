#include "schedule/schedule_key.h"

#include <algorithm>
#include <cmath>
#include <sstream>

namespace patallreduce::schedule {

namespace {

enum class Arrivals : std::uint8_t { none, small, any, as_before };  // small: 16-bit integers
enum class Numbers : std::uint8_t { none, given, as_before };        // by rank

Arrivals kind_of(const std::vector<double>& arrivals_s, const ScheduleKey* before) {
  if (arrivals_s.empty()) return Arrivals::none;
  if (before && before->arrivals_s == arrivals_s) return Arrivals::as_before;
  const auto small = [](double a) { return a >= 0 && a <= 65535 && a == std::floor(a); };
  return std::all_of(arrivals_s.begin(), arrivals_s.end(), small) ? Arrivals::small : Arrivals::any;
}

using ByRank = std::vector<std::int32_t>;

void put(Writer& out, const ByRank& values, const ByRank* before) {
  const bool same = before && *before == values;
  const Numbers kind = values.empty() ? Numbers::none : same ? Numbers::as_before : Numbers::given;
  out.put(kind);
  if (kind == Numbers::given)
    for (const std::int32_t value : values) out.put(static_cast<std::uint16_t>(value));
}

// Of values from least to most.
ByRank get_by_rank(Reader& in, int ranks, int least, int most, const ByRank* before) {
  const auto kind = in.get<Numbers>();
  in.require(kind <= Numbers::given || (kind == Numbers::as_before && before));
  ByRank values;
  if (kind == Numbers::as_before && before) values = *before;
  in.require(kind != Numbers::as_before || !values.empty());
  for (int i = 0; kind == Numbers::given && in.good() && i < ranks; ++i) {
    values.push_back(in.get<std::uint16_t>());
    in.require(values.back() >= least && values.back() <= most);
  }
  in.require(kind != Numbers::given || !before || *before != values);
  return values;
}

void write(std::ostream& text, const char* what, const ByRank& values) {
  if (values.empty()) return;
  text << what << " [";
  for (std::size_t i = 0; i < values.size(); ++i) text << (i ? ", " : "") << values[i];
  text << "]";
}

}  // namespace

bool operator==(const ScheduleKey& a, const ScheduleKey& b) {
  return a.algorithm == b.algorithm && a.segments == b.segments && a.arrivals_s == b.arrivals_s &&
         a.segment_time_s == b.segment_time_s && a.root == b.root && a.latency_s == b.latency_s &&
         a.sum_s == b.sum_s && a.node_of == b.node_of && a.ports == b.ports;
}

std::string describe(const ScheduleKey& key) {
  std::ostringstream text;
  text << key.algorithm << " with " << key.segments << " segments";
  if (!key.arrivals_s.empty()) {
    text << " and arrivals_s [";
    for (std::size_t i = 0; i < key.arrivals_s.size(); ++i)
      text << (i ? ", " : "") << key.arrivals_s[i];
    text << "]";
  }
  if (key.root >= 0) text << " to root " << key.root;
  if (key.segment_time_s > 0) text << " and segment_time_s " << key.segment_time_s;
  if (key.latency_s > 0) text << " and latency_s " << key.latency_s;
  if (key.sum_s > 0) text << " and sum_s " << key.sum_s;
  write(text, " by nodes", key.node_of);
  write(text, " and ports", key.ports);
  return text.str();
}

void put(Writer& out, const ScheduleKey& key, const ScheduleKey* before) {
  out.put(key.algorithm);
  out.put(static_cast<std::int32_t>(key.segments));
  out.put(key.segment_time_s);
  out.put(key.latency_s);
  out.put(key.sum_s);
  out.put(static_cast<std::int32_t>(key.root));
  const Arrivals kind = kind_of(key.arrivals_s, before);
  out.put(kind);
  if (kind == Arrivals::small)
    for (const double arrival_s : key.arrivals_s) out.put(static_cast<std::uint16_t>(arrival_s));
  if (kind == Arrivals::any)
    for (const double arrival_s : key.arrivals_s) out.put(arrival_s);
  put(out, key.node_of, before ? &before->node_of : nullptr);
  put(out, key.ports, before ? &before->ports : nullptr);
}

ScheduleKey get_key(Reader& in, int ranks, const ScheduleKey* before) {
  ScheduleKey key;
  key.algorithm = in.text(max_name_bytes);
  key.segments = in.get<std::int32_t>();
  key.segment_time_s = in.get<double>();
  key.latency_s = in.get<double>();
  key.sum_s = in.get<double>();
  key.root = in.get<std::int32_t>();
  in.require(key.segments >= 1 && key.segments < max_segments);
  in.require(std::isfinite(key.segment_time_s) && key.segment_time_s >= 0);
  in.require(std::isfinite(key.latency_s) && key.latency_s >= 0);
  in.require(std::isfinite(key.sum_s) && key.sum_s >= 0);
  in.require(key.root >= -1 && key.root < ranks);
  const auto kind = in.get<Arrivals>();
  in.require(kind <= Arrivals::any || (kind == Arrivals::as_before && before));
  if (kind == Arrivals::as_before && before) key.arrivals_s = before->arrivals_s;
  in.require(kind != Arrivals::as_before || !key.arrivals_s.empty());
  const bool own_arrivals = kind == Arrivals::small || kind == Arrivals::any;
  for (int i = 0; own_arrivals && in.good() && i < ranks; ++i) {
    const double arrival_s =
        kind == Arrivals::small ? static_cast<double>(in.get<std::uint16_t>()) : in.get<double>();
    in.require(std::isfinite(arrival_s) && arrival_s >= 0);
    key.arrivals_s.push_back(arrival_s);
  }
  in.require(!own_arrivals || !before || before->arrivals_s != key.arrivals_s);
  key.node_of = get_by_rank(in, ranks, 0, ranks - 1, before ? &before->node_of : nullptr);
  key.ports = get_by_rank(in, ranks, 1, most_port_width, before ? &before->ports : nullptr);
  return key;
}

}  // namespace patallreduce::schedule
