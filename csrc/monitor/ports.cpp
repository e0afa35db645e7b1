#include "monitor/ports.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "prediction/times.h"

namespace patallreduce::monitor {

namespace {

constexpr double alike = 1.4;  // as where ports are measured before training
constexpr int times = 3;       // in a row
constexpr double most = 1000;  // that a port gets narrower

bool is_amount(double value) { return std::isfinite(value) && value > 0; }

double rate(const Flow& flow) { return flow.bytes / flow.busy_s; }

// Of flows that begin together: the fastest part of them, all at once.
double together(std::vector<Flow> flows) {
  std::sort(flows.begin(), flows.end(),
            [](const Flow& a, const Flow& b) { return a.busy_s < b.busy_s; });
  double bytes = 0, most = 0;
  for (const Flow& flow : flows) {
    bytes += flow.bytes;
    most = std::max(most, bytes / flow.busy_s);
  }
  return most;
}

}  // namespace

Ports::Ports(std::vector<double> bytes_per_s)
    : start_(std::move(bytes_per_s)),
      widest_(*std::max_element(start_.begin(), start_.end())),
      now_(start_),
      flows_(start_.size()),
      told_(start_.size()),
      off_(start_.size()),
      factor_(start_.size()) {}

void Ports::runs(std::int64_t iteration, Sends sends) {
  if (sends == sends_) return;
  sends_ = sends;
  since_ = iteration;
}

bool Ports::take(int rank, const LinkUsed& report, bool slowed) {
  if (sends_ == Sends::otherwise || report.since < since_) return false;
  const auto ranks = static_cast<int>(now_.size());
  std::vector<Flow>& flows = flows_[std::size_t(rank)];
  flows.clear();
  for (const Flow& flow : report.flows)
    if (is_amount(flow.bytes) && is_amount(flow.busy_s) && is_amount(rate(flow)) &&
        flow.to != rank && flow.to >= 0 && flow.to < ranks)
      flows.push_back(flow);
  told_[std::size_t(rank)] = true;
  if (std::find(told_.begin(), told_.end(), false) != told_.end()) return false;
  const bool changed = learn(slowed);
  std::fill(told_.begin(), told_.end(), false);
  return changed;
}

// By rank: how wide its port is at least.
std::vector<double> Ports::seen() const {
  std::vector<double> seen(now_.size());
  for (std::size_t rank = 0; rank < seen.size(); ++rank) {
    if (sends_ == Sends::to_all_at_once) {
      seen[rank] = together(flows_[rank]);
      continue;
    }
    for (const Flow& flow : flows_[rank])
      for (const std::size_t end : {rank, std::size_t(flow.to)})
        seen[end] = std::max(seen[end], rate(flow));
  }
  return seen;
}

// By rank: whether its port may be no wider than that. It cannot be told next to narrow ones only.
std::vector<bool> Ports::proven(const std::vector<double>& seen) const {
  std::vector<bool> proven(seen.size(), sends_ == Sends::to_all_at_once);
  for (std::size_t rank = 0; rank < seen.size(); ++rank)
    for (const Flow& flow : flows_[rank])
      for (const auto& [one, other] :
           {std::pair(rank, std::size_t(flow.to)), std::pair(std::size_t(flow.to), rank)})
        if (seen[other] > alike * seen[one] || seen[one] * alike > now_[one]) proven[one] = true;
  return proven;
}

bool Ports::learn(bool slowed) {
  const std::vector<double> seen = this->seen();
  const std::vector<bool> proven = this->proven(seen);
  std::vector<double> factors;
  for (std::size_t rank = 0; rank < seen.size(); ++rank) factors.push_back(seen[rank] / now_[rank]);
  const auto middle = factors.begin() + static_cast<std::ptrdiff_t>(factors.size() / 2);
  std::nth_element(factors.begin(), middle, factors.end());
  if (*middle * alike < 1) return false;  // ports are not what holds up these flows
  bool changed = false;
  for (std::size_t rank = 0; rank < seen.size(); ++rank) {
    const double told = seen[rank] / now_[rank] / std::max(*middle, 1.0);
    const double factor = is_amount(told) && proven[rank] ? told : 1;
    const int way = factor > alike ? 1 : slowed && factor * alike < 1 ? -1 : 0;
    const bool goes_on = way != 0 && way * off_[rank] > 0;
    // Each time it was seen to be at least so wide.
    factor_[rank] = goes_on ? std::max(factor, factor_[rank]) : factor;
    off_[rank] = goes_on ? off_[rank] + way : way;
    if (std::abs(off_[rank]) < times) continue;
    double found = std::clamp(now_[rank] * factor_[rank], start_[rank] / most, widest_);
    if (found * alike > start_[rank] && found < alike * start_[rank]) found = start_[rank];
    off_[rank] = 0;
    changed = changed || found != now_[rank];
    now_[rank] = found;
  }
  return changed;
}

}  // namespace patallreduce::monitor
