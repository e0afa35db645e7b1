#include "bindings/records.h"

#include <pybind11/stl.h>

#include <limits>
#include <utility>
#include <vector>

namespace patallreduce::bindings {

using monitor::BucketRecord;
using monitor::EdgeRecord;
using monitor::Host;
using monitor::IterationRecord;

using namespace pybind11::literals;

namespace {

py::dict as_dict(const BucketRecord& bucket, int index) {
  return py::dict("index"_a = index, "elements"_a = bucket.elements, "planned"_a = bucket.planned,
                  "algorithm"_a = bucket.algorithm, "segments"_a = bucket.segments,
                  "predicted_s"_a = bucket.predicted_s, "arrival_s"_a = bucket.arrival_s,
                  "finish_s"_a = bucket.finish_s);
}

// When a rank had the last of its results.
std::vector<double> finishes(const IterationRecord& record) {
  std::vector<double> finish_s(record.start_s.size(), std::numeric_limits<double>::quiet_NaN());
  for (std::size_t r = 0; r < finish_s.size(); ++r)
    for (const BucketRecord& bucket : record.buckets)
      if (!(bucket.finish_s[r] <= finish_s[r])) finish_s[r] = bucket.finish_s[r];
  return finish_s;
}

constexpr std::pair<const char*, double Host::*> host_values[] = {
    {"waited", &Host::waited},
    {"throttled", &Host::throttled},
    {"stolen", &Host::stolen},
    {"faults_per_s", &Host::faults_per_s}};

std::vector<double> of_ranks(const std::vector<Host>& hosts, double Host::* value) {
  std::vector<double> values;
  for (const Host& host : hosts) values.push_back(host.*value);
  return values;
}

}  // namespace

py::dict as_dict(const IterationRecord& record) {
  py::list buckets;
  for (std::size_t b = 0; b < record.buckets.size(); ++b)
    buckets.append(as_dict(record.buckets[b], static_cast<int>(b)));
  py::list progress;
  for (const EdgeRecord& edge : record.progress)
    progress.append(py::dict("fraction"_a = edge.fraction, "at_s"_a = edge.at_s));
  py::dict host;
  for (const auto& [name, value] : host_values)
    if (!record.host.empty()) host[name] = of_ranks(record.host, value);
  return py::dict("model"_a = record.id.loop, "iteration"_a = record.id.iteration,
                  "decided_s"_a = record.decided_s, "edges"_a = record.edges,
                  "start_s"_a = record.start_s, "finish_s"_a = finishes(record),
                  "buckets"_a = buckets, "progress"_a = progress, "host"_a = host,
                  "ports"_a = record.ports);
}

py::dict as_dict(const Host& host) {
  py::dict out;
  for (const auto& [name, value] : host_values) out[name] = host.*value;
  return out;
}

}  // namespace patallreduce::bindings
