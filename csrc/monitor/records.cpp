#include "monitor/records.h"

#include <algorithm>
#include <limits>

namespace patallreduce::monitor {

namespace {

constexpr std::size_t most_kept = 1024;
constexpr std::size_t most_values = 1 << 20;  // of all kept together, roughly: 8 MB and a few times
constexpr std::size_t most_recorded_edges = 16;  // of an iteration

}  // namespace

Records::Records(int ranks)
    : ranks_(ranks), limit_(std::clamp<std::size_t>(most_values / ranks, 16, most_kept)) {}

const IterationRecord* Records::find(const IterationId& id) const {
  const auto found = std::find_if(kept_.rbegin(), kept_.rend(), [&](const auto& record) {
    return record.id.loop == id.loop && record.id.iteration == id.iteration;
  });  // nearly always among the last
  return found == kept_.rend() ? nullptr : &*found;
}

std::vector<IterationRecord> Records::newest(std::int64_t loop, std::size_t most) const {
  std::vector<IterationRecord> found;
  for (auto record = kept_.rbegin(); record != kept_.rend() && found.size() < most; ++record)
    if (record->id.loop == loop) found.push_back(*record);
  std::reverse(found.begin(), found.end());
  return found;
}

std::vector<double> Records::unknown() const {
  return std::vector<double>(ranks_, std::numeric_limits<double>::quiet_NaN());
}

IterationRecord& Records::at(const IterationId& id, std::size_t buckets) {
  auto* found = const_cast<IterationRecord*>(find(id));
  if (!found) {
    kept_.push_back({id, 0, 0, unknown(), {}, {}, {}});
    if (kept_.size() > limit_) kept_.pop_front();
    found = &kept_.back();
  }
  while (found->buckets.size() < buckets)
    found->buckets.push_back({0, false, "", 0, unknown(), unknown(), unknown()});
  return *found;
}

void Records::take(int rank, const Started& report) {
  at(report.id, 0).start_s[rank] = report.at_s;
  if (report.finish_s.empty() || report.id.iteration == 0) return;
  const IterationId before{report.id.loop, report.id.iteration - 1};
  auto& buckets = at(before, report.finish_s.size()).buckets;
  for (std::size_t b = 0; b < report.finish_s.size(); ++b)
    buckets[b].finish_s[rank] = report.finish_s[b];
}

void Records::take(int rank, const EdgeReached& report) {
  if (!(report.fraction > 0 && report.fraction < 1)) return;
  auto& progress = at(report.id, 0).progress;
  auto edge = std::lower_bound(
      progress.begin(), progress.end(), report.fraction,
      [](const EdgeRecord& before, double fraction) { return before.fraction < fraction; });
  if (edge == progress.end() || edge->fraction != report.fraction) {
    if (progress.size() >= most_recorded_edges) return;
    edge = progress.insert(edge, {report.fraction, unknown()});
  }
  edge->at_s[rank] = report.at_s;
}

void Records::take(int rank, const HostUsed& report) {
  auto& host = at(report.id, 0).host;
  host.resize(ranks_);
  host[rank] = report.host;
}

void Records::take(int rank, const Arrived& report) {
  auto& buckets = at(report.id, report.arrivals_s.size()).buckets;
  for (std::size_t b = 0; b < report.arrivals_s.size(); ++b) {
    buckets[b].arrival_s[rank] = report.arrivals_s[b];
    if (b >= report.sizes.size()) continue;
    buckets[b].elements = report.sizes[b].elements;
    if (buckets[b].planned || report.sizes[b].algorithm.empty()) continue;
    buckets[b].algorithm = report.sizes[b].algorithm;
    buckets[b].segments = report.sizes[b].segments;
  }
}

void Records::take(const Plan& plan) {
  auto& buckets = at({plan.loop, plan.iteration}, plan.buckets.size()).buckets;
  for (std::size_t b = 0; b < plan.buckets.size(); ++b) {
    buckets[b].planned = true;
    buckets[b].algorithm = plan.buckets[b].key.algorithm;
    buckets[b].segments = plan.buckets[b].key.segments;
  }
}

void Records::decided(const IterationId& id, double at_s, int edges,
                      const std::vector<std::vector<double>>& predicted_s) {
  IterationRecord& record = at(id, predicted_s.size());
  record.decided_s = at_s;
  record.edges = edges;
  for (std::size_t b = 0; b < predicted_s.size(); ++b)
    record.buckets[b].predicted_s = predicted_s[b];
}

void Records::ports(const IterationId& id, const std::vector<double>& bytes_per_s) {
  at(id, 0).ports = bytes_per_s;
}

}  // namespace patallreduce::monitor
