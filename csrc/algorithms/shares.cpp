#include "algorithms/shares.h"

#include <algorithm>
#include <cstddef>
#include <map>
#include <numeric>

namespace patallreduce::algorithms {

namespace {

using Number = std::int64_t;
using Numbers = std::vector<Number>;

constexpr Number latest = Shares::unit << 12;  // nothing changes any more far before that

}  // namespace

Shares::Shares(const std::vector<double>& arrivals, const std::vector<std::int32_t>& ports) {
  const double first = *std::min_element(arrivals.begin(), arrivals.end());
  for (const double arrival : arrivals)
    arrivals_.push_back(Number(std::min((arrival - first) * unit, double(latest)) + 0.5));
  widths_.assign(arrivals_.size(), 1);
  if (!ports.empty()) widths_.assign(ports.begin(), ports.end());
  widest_ = *std::max_element(widths_.begin(), widths_.end());
  last_ = *std::max_element(arrivals_.begin(), arrivals_.end());
  for (std::size_t rank = 0; rank < arrivals_.size(); ++rank)
    unsent_.push_back(std::max(unit - through(rank, last_ - arrivals_[rank]), Number(0)));
  all_unsent_ = std::accumulate(unsent_.begin(), unsent_.end(), Number(0));
}

// What its port lets through in that time.
Number Shares::through(std::size_t rank, Number time) const {
  return time * widths_[rank] / widest_;
}

// What each may own if all are to be done at `end`.
Numbers Shares::most(Number end) const {
  const auto ranks = Number(arrivals_.size());
  Numbers caps;
  for (std::size_t rank = 0; rank < arrivals_.size(); ++rank) {
    Number cap = std::min(unit, through(rank, end - last_) / (ranks - 1));
    if (ranks > 2) cap = std::min(cap, (through(rank, end - arrivals_[rank]) - unit) / (ranks - 2));
    const Number more = others_unsent(rank) - unit;
    if (more > 0) cap = std::min(cap, (through(rank, end - last_) - unit) * unit / more);
    caps.push_back(std::max(cap, Number(0)));
  }
  return caps;
}

// A rank has all results when two things are over. Its port takes in what others have unsent of its
// share, and the sums of the rest. And all owners have sent it theirs: an owner's port divides
// itself among the others, to each of whom goes what it has unsent of that one's share, and its
// sums; so those who own less get all of theirs sooner. No pair is faster than a pair can be.
std::vector<double> Shares::ends(const Numbers& owned, double partners) const {
  const std::size_t ranks = owned.size();
  const auto sum = static_cast<double>(std::accumulate(owned.begin(), owned.end(), Number(0)));
  std::vector<double> shares;  // of the whole data
  for (const Number amount : owned) shares.push_back(double(amount) / sum);
  std::vector<double> values;  // by owner: which part of all others' shares it has unsent
  for (std::size_t rank = 0; rank < ranks; ++rank) {
    const double unsent = double(unsent_[rank]) / unit - shares[rank];
    values.push_back(unsent > 0 ? unsent / (1 - shares[rank]) : 0);
  }
  const auto takes = [&](std::size_t rank, double amount) {
    return amount * double(widest_) / double(widths_[rank]);
  };
  std::vector<double> ends;
  for (std::size_t rank = 0; rank < ranks; ++rank) {
    const double share = shares[rank];
    double most = takes(rank, 1 + share * (double(others_unsent(rank)) / unit - 1));
    double as_much = 0;  // of every share, no more than of this one's
    for (const double of_other : shares) as_much += std::min(of_other, share);
    for (std::size_t owner = 0; owner < ranks; ++owner) {
      if (owner == rank) continue;
      const double others = as_much - std::min(shares[owner], share);
      const double sums = double(ranks - 1) * shares[owner];
      const double of_pair = shares[owner] + values[owner] * share;
      most =
          std::max(most, takes(owner, std::max(sums + values[owner] * others, partners * of_pair)));
    }
    ends.push_back(double(last_) / unit + most);
  }
  return ends;
}

// Every rank gives or takes the whole data after the last arrival.
Number Shares::least_end() const {
  Number end = 0;
  for (std::size_t rank = 0; rank < widths_.size(); ++rank)
    end = std::max(end, last_ + (unit * widest_ + widths_[rank] - 1) / widths_[rank]);
  return end;
}

Numbers Shares::earliest(Number segments) const {
  const Numbers owned = earliest();
  const Number sum = std::accumulate(owned.begin(), owned.end(), Number(0));
  Numbers whole;
  Number so_far = 0, given = 0;
  for (const Number share : owned) {
    so_far += share;
    const Number until = (so_far * segments + sum / 2) / sum;
    whole.push_back(until - given);
    given = until;
  }
  return whole;
}

Numbers Shares::earliest() const {
  const auto fit = [&](Number end) {
    const Numbers caps = most(end);
    return std::accumulate(caps.begin(), caps.end(), Number(0)) >= unit;
  };
  Number low = least_end(), high = low;
  while (!fit(high)) high *= 2;
  while (high > low && high - low > 1) {
    const Number middle = low + (high - low) / 2;
    (fit(middle) ? high : low) = middle;
  }
  return most(fit(low) ? low : high);
}

Owners owners(const Problem& problem) {
  const auto arrival_s = [&](std::int32_t rank) {
    return problem.arrivals_s.empty() ? 0.0 : problem.arrivals_s[std::size_t(rank)];
  };
  Owners owners;
  std::vector<std::int32_t> ports;
  std::map<std::int32_t, int> numbers;  // in the order of their first ranks
  for (std::int32_t rank = 0; rank < problem.ranks; ++rank) {
    const std::int32_t node = problem.node_of.empty() ? rank : problem.node_of[std::size_t(rank)];
    const auto [number, found] = numbers.emplace(node, int(numbers.size()));
    owners.node_of.push_back(number->second);
    if (found) {
      owners.members.emplace_back();
      owners.arrivals_s.push_back(0);
      if (!problem.ports.empty()) ports.push_back(problem.ports[std::size_t(rank)]);
    }
    owners.members[std::size_t(number->second)].push_back(rank);
    double& last_s = owners.arrivals_s[std::size_t(number->second)];
    last_s = std::max(last_s, arrival_s(rank));
  }
  for (auto& members : owners.members)
    std::stable_sort(members.begin(), members.end(),
                     [&](std::int32_t a, std::int32_t b) { return arrival_s(a) < arrival_s(b); });
  const std::size_t count = owners.members.size();
  if (count == 1) {
    owners.shares = {problem.segments};
    return owners;
  }
  double data_s = problem.segment_time_s * double(count);
  if (!ports.empty()) {
    const auto [narrowest, widest] = std::minmax_element(ports.begin(), ports.end());
    data_s = data_s * *narrowest / *widest;
  }
  std::vector<double> arrivals(count, 0);
  for (std::size_t node = 0; node < count && data_s > 0; ++node)
    arrivals[node] = owners.arrivals_s[node] / data_s;
  for (const Number share : Shares(arrivals, ports).earliest(problem.segments))
    owners.shares.push_back(std::int32_t(share));
  return owners;
}

}  // namespace patallreduce::algorithms
