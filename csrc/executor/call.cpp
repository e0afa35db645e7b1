#include "executor/call.h"

#include <stdexcept>
#include <string_view>

#include "errors.h"
#include "wire.h"

namespace patallreduce::executor {

const char* name(Carrier carrier) {
  constexpr const char* names[] = {"host", "device", "streams"};
  return names[static_cast<int>(carrier)];
}

Carrier find_carrier(const std::string& text) {
  for (const Carrier carrier : {Carrier::host, Carrier::device, Carrier::streams})
    if (text == name(carrier)) return carrier;
  throw std::invalid_argument(
      concat("carrier: expected host, device or streams, got '", text, "'"));
}

bool same_demand(const Call& a, const Call& b) {
  return a.count == b.count && a.carrier == b.carrier && a.dtype == b.dtype && a.op == b.op &&
         a.label == b.label && a.loop == b.loop && a.iteration == b.iteration;
}

bool operator==(const Call& a, const Call& b) { return same_demand(a, b) && a.key == b.key; }

std::string describe(const Call& call) {
  std::string text = concat(call.count, " elements of ", name(call.dtype), ", ", name(call.op),
                            ", ", describe(call.key));
  if (call.carrier != Carrier::host) text += concat(", carried by ", name(call.carrier));
  if (call.label >= 0) text += concat(", bucket ", call.label);
  if (call.label == tree_label) text += ", a tree sum's table";
  if (call.planned()) text += concat(", iteration ", call.iteration, " of loop ", call.loop);
  return text;
}

std::uint64_t hash(const Call& call) {
  Hash hash;
  hash.mix(call.count);
  hash.mix(call.carrier);
  hash.mix(call.dtype);
  hash.mix(call.op);
  hash.mix(call.label);
  hash.mix(call.loop);
  hash.mix(call.iteration);
  hash.mix(call.key.algorithm.data(), call.key.algorithm.size());
  hash.mix(call.key.segments);
  hash.mix(&call.key.segment_time_s, sizeof call.key.segment_time_s);
  hash.mix(call.key.root);
  hash.mix(&call.key.latency_s, sizeof call.key.latency_s);
  hash.mix(&call.key.sum_s, sizeof call.key.sum_s);
  hash.mix(call.key.arrivals_s.data(), call.key.arrivals_s.size() * sizeof(double));
  for (const auto* values : {&call.key.node_of, &call.key.ports})
    hash.mix(values->data(), values->size() * sizeof(std::int32_t));
  return hash.value;
}

}  // namespace patallreduce::executor
