#include "executor/call.h"

#include <string_view>

#include "errors.h"

namespace patallreduce {

bool same_demand(const Call& a, const Call& b) {
  return a.count == b.count && a.dtype == b.dtype && a.op == b.op && a.label == b.label &&
         a.stream == b.stream && a.iteration == b.iteration;
}

bool operator==(const Call& a, const Call& b) { return same_demand(a, b) && a.key == b.key; }

std::string describe(const Call& call) {
  std::string text = concat(call.count, " elements of ", name(call.dtype), ", ", name(call.op),
                            ", ", describe(call.key));
  if (call.label >= 0) text += concat(", bucket ", call.label);
  if (call.label == tree_label) text += ", a tree sum's table";
  if (call.planned()) text += concat(", iteration ", call.iteration, " of stream ", call.stream);
  return text;
}

std::uint64_t hash(const Call& call) {
  std::uint64_t value = 0xcbf29ce484222325;  // FNV-1a
  const auto mix = [&value](const void* data, std::size_t bytes) {
    for (std::size_t i = 0; i < bytes; ++i)
      value = (value ^ static_cast<const unsigned char*>(data)[i]) * 0x100000001b3;
  };
  mix(&call.count, sizeof call.count);
  mix(&call.dtype, sizeof call.dtype);
  mix(&call.op, sizeof call.op);
  mix(&call.label, sizeof call.label);
  mix(&call.stream, sizeof call.stream);
  mix(&call.iteration, sizeof call.iteration);
  mix(call.key.algorithm.data(), call.key.algorithm.size());
  mix(&call.key.segments, sizeof call.key.segments);
  mix(&call.key.segment_time_s, sizeof call.key.segment_time_s);
  mix(&call.key.root, sizeof call.key.root);
  mix(&call.key.latency_s, sizeof call.key.latency_s);
  mix(&call.key.sum_s, sizeof call.key.sum_s);
  mix(call.key.arrivals_s.data(), call.key.arrivals_s.size() * sizeof(double));
  return value;
}

}  // namespace patallreduce
