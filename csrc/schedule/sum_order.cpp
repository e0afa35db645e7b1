// Costs O(steps + touched segments + edges of the order), one hash look-up per addition.
#include "schedule/sum_order.h"

#include <algorithm>
#include <cstddef>
#include <unordered_map>
#include <utility>

#include "errors.h"
#include "schedule/messages.h"
#include "schedule/order.h"
#include "schedule/print.h"

namespace patallreduce::schedule {

namespace {

constexpr std::size_t none = std::size_t(-1);

class SymbolicRun {
 public:
  explicit SymbolicRun(const Schedule& schedule)
      : schedule_(schedule), segments_(schedule.problem.segments), messages_(match(schedule)) {
    const std::size_t steps = messages_.partner.size();
    rank_.reserve(steps);
    waits_.reserve(steps);
    next_message_.assign(steps, none);
    payload_.resize(steps);
    for (int rank = 0; rank < schedule.problem.ranks; ++rank) add_rank(rank);
  }

  SumOrders run() {
    std::vector<std::size_t> ready;
    std::size_t done = 0;
    for (std::size_t n = 0; n < waits_.size(); ++n) {
      if (waits_[n] == 0) ready.push_back(n);
    }
    while (!ready.empty()) {
      const std::size_t n = ready.back();
      ready.pop_back();
      execute(n);
      ++done;
      each_waiting_for(n, [&](std::size_t after) {
        if (--waits_[after] == 0) ready.push_back(after);
      });
    }
    if (done < waits_.size()) throw ScheduleError(deadlock());
    return std::move(orders_);
  }

 private:
  void add_rank(int rank) {
    const Steps& steps = schedule_.steps[rank];
    orders_.sums.push_back({-1, -1});
    orders_.result.insert(orders_.result.end(), segments_, rank);
    order_.push_back(order_of(steps, segments_));
    // The last message of this rank to and from each peer.
    std::vector<std::size_t> sent(schedule_.problem.ranks, none), taken = sent;
    for (std::size_t i = 0; i < steps.size(); ++i) {
      const bool sends = steps[i].verb == Verb::send;
      std::size_t& previous = (sends ? sent : taken)[steps[i].peer];
      if (previous != none) next_message_[previous] = messages_.begin[rank] + i;
      rank_.push_back(rank);
      waits_.push_back(order_[rank].waits[i] + (previous != none) + !sends);
      previous = messages_.begin[rank] + i;
    }
  }

  const Step& step(std::size_t n) const {
    return schedule_.steps[rank_[n]][n - messages_.begin[rank_[n]]];
  }

  template <typename Visit>
  void each_waiting_for(std::size_t n, const Visit& visit) const {
    const Order& order = order_[rank_[n]];
    const std::size_t begin = messages_.begin[rank_[n]], i = n - begin;
    for (std::int32_t u = order.unlocks_begin[i]; u < order.unlocks_begin[i + 1]; ++u) {
      visit(begin + order.unlocks[u]);
    }
    if (next_message_[n] != none) visit(next_message_[n]);
    if (step(n).verb == Verb::send) visit(messages_.partner[n]);
  }

  void execute(std::size_t n) {
    const auto held = orders_.result.begin() + std::ptrdiff_t(rank_[n]) * segments_;
    const auto first = held + step(n).first, last = held + step(n).last;
    if (step(n).verb == Verb::send) {
      payload_[n].assign(first, last);
      return;
    }
    std::vector<std::int32_t>& received = payload_[messages_.partner[n]];
    if (step(n).verb == Verb::recv) {
      std::copy(received.begin(), received.end(), first);
    } else {
      std::transform(received.begin(), received.end(), first, first,
                     [this](std::int32_t a, std::int32_t b) { return sum(a, b); });
    }
    received = {};  // a schedule in flight holds few messages at a time
  }

  std::int32_t sum(std::int32_t received, std::int32_t held) {
    const auto [low, high] = std::minmax(received, held);
    const std::uint64_t key = std::uint64_t(low) << 32 | std::uint32_t(high);
    const auto [found, is_new] = known_.try_emplace(key, std::int32_t(orders_.sums.size()));
    if (is_new) orders_.sums.push_back({received, held});
    return found->second;
  }

  // Every step left over waits for another one left over, so a walk ends in a cycle.
  std::string deadlock() const {
    std::vector<std::size_t> blocker(waits_.size(), none);
    std::size_t at = none;
    for (std::size_t n = waits_.size(); n-- > 0;) {
      if (waits_[n] == 0) continue;
      at = n;
      each_waiting_for(n, [&](std::size_t after) { blocker[after] = n; });
    }
    std::vector<bool> seen(waits_.size());
    for (; !seen[at]; at = blocker[at]) seen[at] = true;
    const auto name = [&](std::size_t n) {
      return place(schedule_, rank_[n], n - messages_.begin[rank_[n]]);
    };
    std::string chain = "deadlock: " + name(at);
    std::size_t n = at;
    for (int links = 0; links == 0 || n != at; ++links) {
      if (links == 8) return chain + ", and so on in a circle";
      n = blocker[n];
      chain += (links == 0 ? " waits for " : ", that for ") + name(n);
    }
    return chain;
  }

  const Schedule& schedule_;
  const int segments_;
  const Messages messages_;
  std::vector<Order> order_;                        // [rank]
  std::vector<int> rank_;                           // [step number]
  std::vector<std::int32_t> waits_;                 // [step number]
  std::vector<std::size_t> next_message_;           // [step number], same two ranks, same direction
  std::vector<std::vector<std::int32_t>> payload_;  // [step number of the send]
  std::unordered_map<std::uint64_t, std::int32_t> known_;  // two numbers -> their sum's
  SumOrders orders_;
};

}  // namespace

SumOrders sum_orders(const Schedule& schedule) { return SymbolicRun(schedule).run(); }

std::string text(const SumOrders& orders, std::int32_t number, int ranks) {
  if (number < ranks) return std::to_string(number);
  const SumOrders::Sum& sum = orders.sums[number];
  return "(" + text(orders, sum.received, ranks) + "+" + text(orders, sum.held, ranks) + ")";
}

}  // namespace patallreduce::schedule
