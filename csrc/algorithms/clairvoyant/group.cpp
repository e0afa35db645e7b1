#include "algorithms/clairvoyant/group.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <tuple>

namespace patallreduce::algorithms {

namespace {

// Beyond this the number of rounds until an arrival means nothing, and sums must not overflow.
constexpr double most_rounds = 1e18;
// Rounds between two arrivals where a round takes no time: more than a schedule can have.
constexpr std::int64_t endless = std::int64_t(1) << 32;

}  // namespace

Group::Group(const Problem& problem)
    : problem_(problem),
      arrivals_(problem.ranks, Time{0, 0}),
      since_(problem.ranks, Time{0, 0}),
      order_(problem.ranks),
      left_(problem.ranks, false) {
  std::iota(order_.begin(), order_.end(), 0);
  std::stable_sort(order_.begin(), order_.end(),
                   [&](std::int32_t a, std::int32_t b) { return arrival_s(a) < arrival_s(b); });
  std::int64_t later = 0;  // arrivals before it, equal ones counted once
  for (std::size_t i = 0; i < order_.size(); ++i) {
    const double at_s = arrival_s(order_[i]), round_s = problem.segment_time_s;
    if (i > 0 && at_s > arrival_s(order_[i - 1])) ++later;
    if (round_s == 0) {
      arrivals_[order_[i]] = {later * endless, 0};
    } else {
      const double rest_s = std::fmod(at_s, round_s);  // exact
      const double rounds = std::min(std::round((at_s - rest_s) / round_s), most_rounds);
      arrivals_[order_[i]] = {std::int64_t(rounds), rest_s};
    }
  }
  // Where most_rounds cut, ranks must still wait in the order of these times.
  std::stable_sort(order_.begin(), order_.end(), [&](std::int32_t a, std::int32_t b) {
    return earlier(arrivals_[a], arrivals_[b]);
  });
}

bool Group::sooner(std::int32_t a, std::int32_t b) const {
  if (earlier(since_[a], since_[b])) return true;
  if (earlier(since_[b], since_[a])) return false;
  return std::make_tuple(arrival_s(a), a) < std::make_tuple(arrival_s(b), b);
}

bool Group::before(std::int32_t a, std::int32_t b) const {
  if (a == problem_.root || b == problem_.root) return a == problem_.root && b != a;
  return sooner(a, b);
}

bool Group::next() {
  joined_.clear();
  if (!here_.empty()) {
    ++rounds_;
    here_.erase(std::remove_if(here_.begin(), here_.end(),
                               [&](std::int32_t rank) { return bool(left_[rank]); }),
                here_.end());
  }
  join();
  if (here_.size() == 1) {
    if (!someone_waits()) return false;
    // So many rounds later the next to arrive comes within a round of the one that is here.
    const Time here = available(here_.front()), next = arrivals_[order_[waiting_]];
    rounds_ += next.rounds - here.rounds - (next.rest_s < here.rest_s);
    join();
  }
  list();
  return true;
}

void Group::join() {
  if (!someone_waits()) return;
  Time first = arrivals_[order_[waiting_]];
  if (!here_.empty() && !earlier(first, available(here_.front()))) first = available(here_.front());
  const Time end{first.rounds + 1, first.rest_s};
  const auto here = std::ptrdiff_t(here_.size());
  for (; someone_waits() && earlier(arrivals_[order_[waiting_]], end); ++waiting_) {
    const std::int32_t rank = order_[waiting_];
    since_[rank] = {arrivals_[rank].rounds - rounds_, arrivals_[rank].rest_s};
    here_.push_back(rank);
    joined_.push_back(rank);
    root_is_here_ |= rank == problem_.root;
  }
  std::inplace_merge(here_.begin(), here_.begin() + here, here_.end(),
                     [this](std::int32_t a, std::int32_t b) { return sooner(a, b); });
}

void Group::list() {
  ranks_.clear();
  if (root_is_here_) ranks_.push_back(problem_.root);
  for (const std::int32_t rank : here_)
    if (rank != problem_.root) ranks_.push_back(rank);
}

std::vector<std::int32_t> Group::columns() const {
  std::vector<std::int32_t> columns(problem_.ranks);
  std::iota(columns.begin(), columns.end(), 0);
  std::sort(columns.begin(), columns.end(), [&](std::int32_t a, std::int32_t b) {
    return std::make_tuple(arrivals_[a].rest_s, arrival_s(a), a) <
           std::make_tuple(arrivals_[b].rest_s, arrival_s(b), b);
  });
  return columns;
}

}  // namespace patallreduce::algorithms
