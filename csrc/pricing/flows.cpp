#include "pricing/flows.h"

#include <algorithm>
#include <cmath>
#include <cstddef>

namespace patallreduce::pricing {

Flows::Flows(int ports, int uplinks, double burst_s, double partners)
    : burst_s_(burst_s), next_s_(HUGE_VAL), ports_(std::size_t(ports) + std::size_t(uplinks)) {
  for (std::size_t i = 0; i < ports_.size(); ++i)
    ports_[i].partners = int(i) < ports ? partners : 1;
  for (Port& port : ports_) {
    port.clock_s = port.queued_s = -HUGE_VAL;
    port.tokens_s = burst_s;
    port.queue_s = -burst_s;
  }
}

void Flows::start(const Flow& flow, double fixed_s, double transfer_s, double now_s) {
  Port& from = ports_[flow.from];
  advance_sends(from, now_s);
  const double at_once_s = std::min(transfer_s, from.tokens_s);
  from.tokens_s -= at_once_s;
  advance_queue(ports_[flow.to], now_s);
  ports_[flow.to].queue_s += at_once_s * flow.slower;
  const double left_s = std::max(fixed_s + transfer_s - at_once_s, 0.0);
  from.sends.push_back({flow, from.clock + left_s, started_++});
  share(from, now_s, from.sends.size() - 1);
  find_next();
}

Flows::Flow Flows::end() {
  Port& from = ports_[next_port_];
  const double now_s = next_s_;
  advance_sends(from, now_s);
  Flow ended = from.sends[from.first].flow;
  Port& to = ports_[ended.to];
  advance_queue(to, now_s);
  to.comes -= ended.slower / from.slowed(from.sends.size());
  from.sends.erase(from.sends.begin() + std::ptrdiff_t(from.first));
  share(from, now_s, from.sends.size() + 1);
  ended.after_s += std::max(to.queue_s, 0.0) / to.partners;
  find_next();
  return ended;
}

void Flows::advance_sends(Port& port, double now_s) {
  const double passed_s = std::isinf(port.clock_s) ? 0 : now_s - port.clock_s;
  port.clock_s = now_s;
  if (port.sends.empty()) {
    port.tokens_s = std::min(port.tokens_s + port.partners * passed_s, burst_s_);
  } else {
    port.clock += passed_s / port.slowed(port.sends.size());
  }
}

void Flows::advance_queue(Port& port, double now_s) const {
  const double passed_s = std::isinf(port.queued_s) ? 0 : now_s - port.queued_s;
  port.queued_s = now_s;
  port.queue_s = std::max(port.queue_s + (port.comes - port.partners) * passed_s, -burst_s_);
}

// Among what it sends now, of which there were so many before: a message that has just started, the
// last one, had no share yet.
void Flows::share(Port& port, double now_s, std::size_t before) {
  const std::size_t now = port.sends.size();
  for (std::size_t i = 0; i < now; ++i) {
    const Flow& flow = port.sends[i].flow;
    Port& to = ports_[flow.to];
    advance_queue(to, now_s);
    const bool had_share = before > now || i < before;
    to.comes += flow.slower * (1 / port.slowed(now) - (had_share ? 1 / port.slowed(before) : 0.0));
    if (to.comes < 1e-12) to.comes = 0;  // what rounding leaves
  }
  const auto sooner = [](const Sent& a, const Sent& b) {
    return a.until != b.until ? a.until < b.until : a.number < b.number;
  };
  const auto first = std::min_element(port.sends.begin(), port.sends.end(), sooner);
  port.first = std::size_t(first - port.sends.begin());
}

void Flows::find_next() {
  next_s_ = HUGE_VAL;
  std::uint64_t number = 0;
  for (std::size_t i = 0; i < ports_.size(); ++i) {
    const Port& port = ports_[i];
    if (port.sends.empty()) continue;
    const Sent& first = port.sends[port.first];
    const double left_s = std::max(first.until - port.clock, 0.0);
    const double at_s = port.clock_s + left_s * port.slowed(port.sends.size());
    if (at_s < next_s_ || (at_s == next_s_ && first.number < number)) {
      next_s_ = at_s;
      next_port_ = i;
      number = first.number;
    }
  }
}

}  // namespace patallreduce::pricing
