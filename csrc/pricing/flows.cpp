#include "pricing/flows.h"

#include <algorithm>
#include <cmath>

namespace patallreduce::pricing {

Flows::Flows(int ranks, double burst_s)
    : burst_s_(burst_s), now_s_(-HUGE_VAL), ports_(ranks, Port{burst_s, -burst_s}), comes_(ranks) {}

void Flows::start(Flow flow, double fixed_s, double transfer_s, double now_s) {
  advance(now_s);
  Port &from = ports_[flow.from], &to = ports_[flow.to];
  const double at_once_s = std::min(transfer_s, from.tokens_s);
  from.tokens_s -= at_once_s;
  to.queue_s += at_once_s * flow.slower;
  flow.left_s = std::max(fixed_s + transfer_s - at_once_s, 0.0);
  ++from.sends;
  flows_.push_back(flow);
}

double Flows::next_s() const {
  double first_s = HUGE_VAL;
  for (const Flow& flow : flows_)
    first_s = std::min(first_s, flow.left_s * ports_[flow.from].sends);
  return flows_.empty() ? HUGE_VAL : now_s_ + first_s;
}

Flows::Flow Flows::end() {
  const auto first =
      std::min_element(flows_.begin(), flows_.end(), [&](const Flow& a, const Flow& b) {
        return a.left_s * ports_[a.from].sends < b.left_s * ports_[b.from].sends;
      });
  const auto place = first - flows_.begin();
  advance(next_s());
  Flow ended = flows_[place];
  flows_.erase(flows_.begin() + place);
  --ports_[ended.from].sends;
  ended.after_s += std::max(ports_[ended.to].queue_s, 0.0);
  return ended;
}

void Flows::advance(double now_s) {
  const double passed_s = std::isinf(now_s_) ? 0 : now_s - now_s_;
  now_s_ = now_s;
  if (passed_s <= 0) return;
  std::fill(comes_.begin(), comes_.end(), 0.0);
  for (Flow& flow : flows_) {
    flow.left_s = std::max(flow.left_s - rate(flow) * passed_s, 0.0);
    comes_[flow.to] += rate(flow) * flow.slower;
  }
  for (std::size_t rank = 0; rank < ports_.size(); ++rank) {
    Port& port = ports_[rank];
    if (port.sends == 0) port.tokens_s = std::min(port.tokens_s + passed_s, burst_s_);
    port.queue_s = std::max(port.queue_s + (comes_[rank] - 1) * passed_s, -burst_s_);
  }
}

}  // namespace patallreduce::pricing
