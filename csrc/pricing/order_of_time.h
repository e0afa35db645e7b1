// Which event is next: the first of all ranks, or rank after rank as far as each can be run.
#pragma once

#include "pricing/ports.h"

namespace patallreduce::pricing {

template <typename Steps>
void Ports<Steps>::begin() {
  const auto ranks = static_cast<std::int32_t>(ranks_.size());
  // Before any arrival nothing can be sent that the rank did not receive.
  now_s_ = arrivals_s_.empty() ? 0 : *std::min_element(arrivals_s_.begin(), arrivals_s_.end());
  for (std::int32_t rank = 0; rank < ranks && !busy_.sends_until_s.empty(); ++rank) {
    const std::int32_t number = steps_.port(rank);
    Port& port = ports_[number];
    if (port.line.sending) continue;
    port.sends_until_s = busy_.sends_until_s[number];
    port.receives_until_s = busy_.receives_until_s[number];
    port.sent_steadily_s = port.sends_until_s + burst_s_;
    port.received_steadily_s = port.receives_until_s + burst_s_;
    port.line.sending = port.sends_until_s > now_s_;
    if (port.line.sending) push(rank, port.sends_until_s, What::sent, rank, -1);
  }
  for (std::int32_t rank = 0; rank < ranks; ++rank)
    push(rank, arrival_s(rank), What::arrives, rank, 0);
  for (std::int32_t rank = 0; rank < ranks; ++rank) refill(rank);
}

template <typename Steps>
Account Ports<Steps>::run_in_order_of_time() {
  begin();
  while (now_s_ <= accounting_.limit_s) {
    const double next_s = events_.empty() ? HUGE_VAL : events_.top().at_s;
    if (shares_ports() && flows_.next_s() <= next_s && flows_.next_s() < HUGE_VAL) {
      end_flow();
    } else if (next_s < HUGE_VAL) {
      const Event event = events_.pop();
      now_s_ = event.at_s;
      happen(event);
    } else {
      return end();
    }
  }
  account_.outcome.finish_s.assign(ranks_.size(), HUGE_VAL);
  return std::move(account_);
}

// A rank behind its one sender is run until the earliest time at which a message that the sender
// has not sent yet could be there.
template <typename Steps>
Account Ports<Steps>::run_rank_by_rank(double flight_s) {
  // A rank's events in a row, so that the messages waiting at the next rank stay few.
  constexpr int most_in_a_row = 512;
  by_rank_.resize(ranks_.size());
  begin();
  const std::vector<std::int32_t> order = steps_.behind_senders();
  std::vector<double> known_s(ranks_.size(), now_s_);  // all that happens there earlier has
  for (;;) {
    bool moved = false;
    for (const std::int32_t rank : order) {
      const std::int32_t sender = steps_.sender(rank);
      const double until_s = sender < 0 ? HUGE_VAL : known_s[sender] + flight_s;
      RankEvents& events = by_rank_[rank];
      double next_s = events.next_s();
      for (int n = 0; n < most_in_a_row && next_s < until_s; ++n) {
        const Event event = events.pop();
        now_s_ = event.at_s;
        happen(event);
        next_s = events.next_s();
        moved = true;
      }
      known_s[rank] = std::max(known_s[rank], std::min(next_s, until_s));
    }
    if (moved) continue;
    double next_s = HUGE_VAL;
    for (const RankEvents& events : by_rank_) next_s = std::min(next_s, events.next_s());
    if (next_s == HUGE_VAL) return end();
    for (double& at_s : known_s) at_s = std::max(at_s, next_s);
  }
}

template <typename Steps>
Account Ports<Steps>::end() {
  steps_.check_end();
  account_.outcome.finish_s.reserve(ranks_.size());
  for (const Rank& rank : ranks_) account_.outcome.finish_s.push_back(rank.finish_s);
  for (const Port& port : ports_) {
    account_.busy.sends_until_s.push_back(port.sends_until_s);
    account_.busy.receives_until_s.push_back(port.receives_until_s);
  }
  if (records()) find_critical_path();
  return std::move(account_);
}

template <typename Steps>
void Ports<Steps>::find_critical_path() {
  const auto last =
      std::max_element(ranks_.begin(), ranks_.end(),
                       [](const Rank& a, const Rank& b) { return a.finish_s < b.finish_s; });
  for (std::int32_t n = last->finish_record; n >= 0; n = records_[n].cause)
    account_.critical_path.push_back({records_[n].rank, records_[n].step, records_[n].done_s});
  std::reverse(account_.critical_path.begin(), account_.critical_path.end());
}

template <typename Steps>
void Ports<Steps>::happen(const Event& event) {
  switch (Steps::paced ? static_cast<What>(event.order & 7) : event.what()) {
    case What::arrives:
      if (has_calls()) {
        std::int32_t cause = recorded(event.where, -1, -1, now_s_);
        const double until_s = work(event.where, network_.call_s, cause);
        return push(event.where, until_s, What::called, event.where, 0);
      }
      [[fallthrough]];
    case What::called:
      arrive(event.where);
      return refill(event.where);
    case What::sent:
      sent(event.where, event.which);
      return refill(event.where);
    case What::landed:
      return land(event.where, event.which);
    case What::received:
      return deliver(event.where, event.which);
    case What::summed:
      complete(event.where, event.which);
      return refill(event.where);
    case What::may_leave:
      return line_up(event.where, event.which);
    case What::leaves:
      return start_flow(event.where, event.which);
  }
}

}  // namespace patallreduce::pricing
