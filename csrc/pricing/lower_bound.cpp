#include "pricing/lower_bound.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <numeric>
#include <queue>
#include <utility>

#include "errors.h"

namespace patallreduce::pricing {

namespace {

using Turns = std::vector<std::pair<double, double>>;  // at a port: from when, how long

double most_bytes_per_s(const Link& link) {
  double most = link.bytes_per_s;
  for (const auto& [bytes, seconds] : link.transfers_s) most = std::max(most, bytes / seconds);
  return most;
}

// When a port has served all, each from its time on, ahead by a burst.
double done_s(Turns turns, double burst_s) {
  std::sort(turns.begin(), turns.end());
  double done_s = -HUGE_VAL, last_s = -HUGE_VAL;
  for (const auto& [from_s, length_s] : turns) {
    done_s = std::max(done_s, from_s) + length_s;
    last_s = from_s;
  }
  return std::max(done_s - burst_s, last_s);
}

// How long it has served them until then.
double served_s(Turns turns, double until_s) {
  std::sort(turns.begin(), turns.end());
  double done_s = -HUGE_VAL, served_s = 0;
  for (const auto& [from_s, length_s] : turns) {
    const double begin_s = std::max(done_s, from_s);
    done_s = begin_s + length_s;
    served_s += std::clamp(until_s - begin_s, 0.0, length_s);
  }
  return served_s;
}

// One knows, at 0. Who knows tells one after the other, a port's share apart; or, where one partner
// does not fill a port, all at once.
double broadcast_s(std::size_t ranks, const Link& link) {
  std::priority_queue<double, std::vector<double>, std::greater<>> heard_s;  // by another rank
  heard_s.push(link.latency_s);
  const double apart_s =
      link.partners > 1 ? 0 : link.port_share * link.latency_s / (link.processors > 0 ? 2 : 1);
  double now_s = 0;
  for (std::size_t told = 1; told < ranks; ++told) {
    now_s = heard_s.top();
    heard_s.pop();
    heard_s.push(now_s + apart_s);
    heard_s.push(now_s + link.latency_s);
  }
  return now_s;
}

// How long until all have what one rank's port needs so long to send. What leaves it within the
// last two latencies comes too late to be passed on: it has to be sent to each of the others.
double spread_s(std::size_t ranks, double sent_s, double latency_s) {
  const double others = static_cast<double>(ranks) - 1;
  return sent_s + latency_s + (others - 1) * std::min(sent_s, latency_s / others);
}

double last_of_others(const std::vector<double>& row, std::size_t rank) {
  double last_s = -HUGE_VAL;
  for (std::size_t other = 0; other < row.size(); ++other)
    if (other != rank) last_s = std::max(last_s, row[other]);
  return last_s;
}

}  // namespace

LowerBound lower_bound(const Link& link, const std::vector<std::uint64_t>& message_bytes,
                       const std::vector<std::vector<double>>& arrivals_s,
                       std::vector<double> ports, double burst_s) {
  const std::size_t buckets = arrivals_s.size(), ranks = arrivals_s.front().size();
  if (ports.empty()) {
    // Single connections hold nothing up that a port lets through at once.
    const double others = burst_s > 0 ? HUGE_VAL : std::max(static_cast<double>(ranks) - 1, 1.0);
    const double ends = link.processors > 0 ? 2 : 1;  // each has half of a message's work
    ports.assign(ranks, most_bytes_per_s(link) * std::min(link.partners, others) * ends);
    check_ports(link, static_cast<int>(ranks));
    for (std::size_t rank = 0; rank < link.ports.size(); ++rank)
      ports[rank] *=
          double(link.ports[rank]) / *std::min_element(link.ports.begin(), link.ports.end());
  }
  PATR_CHECK(ports.size() == ranks && *std::min_element(ports.begin(), ports.end()) > 0,
             ScheduleError, "lower bound: expected a port > 0 bytes/s for each of ", ranks,
             " ranks, got ", ports.size());
  double all_ports = std::accumulate(ports.begin(), ports.end(), 0.0);
  if (link.processors > 0)
    all_ports =
        std::min(all_ports, link.processors * *std::max_element(ports.begin(), ports.end()) / 2);
  LowerBound bound{std::vector<double>(ranks, -HUGE_VAL), -HUGE_VAL};
  std::vector<double> bytes, lasts_s;
  for (std::size_t b = 0; b < buckets; ++b) {
    bytes.push_back(static_cast<double>(message_bytes[b]));
    lasts_s.push_back(*std::max_element(arrivals_s[b].begin(), arrivals_s[b].end()));
  }
  for (std::size_t rank = 0; rank < ranks; ++rank) {
    Turns in, out;
    for (std::size_t b = 0; b < buckets; ++b) {
      const double arrival_s = arrivals_s[b][rank];
      bound.finish_s[rank] = std::max(bound.finish_s[rank], arrival_s);
      in.emplace_back(last_of_others(arrivals_s[b], rank), bytes[b] / ports[rank]);
      if (arrival_s == lasts_s[b]) out.emplace_back(arrival_s, bytes[b] / ports[rank]);
    }
    if (ranks > 1) {
      bound.finish_s[rank] = std::max(bound.finish_s[rank], done_s(in, burst_s) + link.latency_s);
      bound.last_finish_s = std::max(bound.last_finish_s, done_s(out, burst_s) + link.latency_s);
    }
    bound.last_finish_s = std::max(bound.last_finish_s, bound.finish_s[rank]);
  }
  const double told_s = broadcast_s(ranks, link);
  const double flight_s = (1 - link.port_share) * link.latency_s;
  for (std::size_t b = 0; b < buckets && ranks > 1; ++b) {
    for (std::size_t rank = 0; rank < ranks; ++rank)
      if (arrivals_s[b][rank] == lasts_s[b]) {
        const double sent_s = std::max(bytes[b] / ports[rank] - burst_s, 0.0);
        const double all_s = std::max(sent_s + told_s, spread_s(ranks, sent_s, link.latency_s));
        bound.last_finish_s = std::max(bound.last_finish_s, lasts_s[b] + all_s);
      }
    double later = 0, unsent = 0;  // bytes of this bucket and those whose last arrival is later
    for (std::size_t other = 0; other < buckets; ++other)
      if (lasts_s[other] >= lasts_s[b]) later += bytes[other];
    for (std::size_t rank = 0; rank < ranks; ++rank) {
      Turns turns;
      for (std::size_t other = 0; other < buckets; ++other)
        if (lasts_s[other] >= lasts_s[b])
          turns.emplace_back(arrivals_s[other][rank], bytes[other] / ports[rank]);
      unsent += later - served_s(turns, lasts_s[b]) * ports[rank];
    }
    const double moved = unsent + (static_cast<double>(ranks) - 2) * later;
    const double share_s = std::max(moved / all_ports - burst_s, 0.0);
    // Processors that have sent all, with half of their work, receive some while the last one
    // flies.
    const double sent_s = link.processors > 0 ? share_s / 2 : share_s;
    if (later > 0)
      bound.last_finish_s =
          std::max(bound.last_finish_s, lasts_s[b] + std::max(sent_s + flight_s, share_s));
  }
  return bound;
}

}  // namespace patallreduce::pricing
