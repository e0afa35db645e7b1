// Two colours by union and find with parity, the worst pairs first: whatever can do with two lanes
// gets them. Then single flows move to the lane in which they are least at odds, as long as that
// gains something: local search, which finds the third lane.
#include "schedule/lanes.h"

#include <algorithm>
#include <cstddef>
#include <map>
#include <tuple>
#include <utility>

#include "errors.h"
#include "schedule/messages.h"

namespace patallreduce::schedule {

namespace {

// Meeting in one level outweighs any number of flows that only share a rank.
constexpr std::int64_t meets = std::int64_t(1) << 24;

struct Pair {
  std::int32_t a, b;  // flows, a < b
  std::int64_t odds;
};

class Laning {
 public:
  Laning(const Schedule& schedule, const Levels& levels, int lanes)
      : schedule_(schedule), levels_(levels), lanes_(lanes) {
    number_flows();
    weigh();
  }

  std::vector<std::vector<std::int32_t>> run() {
    lane_.assign(count_, 0);
    if (lanes_ > 1) {
      split();
      improve();
    }
    std::vector<std::vector<std::int32_t>> of_step = flow_;
    for (auto& steps : of_step) {
      for (std::int32_t& one : steps) one = lane_[one];
    }
    return of_step;
  }

 private:
  void number_flows() {
    const Messages matched = match(schedule_);
    std::map<std::tuple<std::int32_t, std::int32_t, Verb>, std::int32_t> numbers;
    const auto each_receive = [&](const auto& visit) {
      for (int rank = 0; rank < schedule_.problem.ranks; ++rank) {
        for (std::size_t i = 0; i < schedule_.steps[rank].size(); ++i) {
          const Step& step = schedule_.steps[rank][i];
          if (step.verb != Verb::send) visit(rank, i, std::tuple(step.peer, rank, step.verb));
        }
      }
    };
    each_receive([&](int, std::size_t, const auto& flow) { numbers[flow] = 0; });
    for (auto& [flow, number] : numbers) number = count_++;
    for (const Steps& steps : schedule_.steps) flow_.emplace_back(steps.size());
    each_receive([&](int rank, std::size_t i, const auto& flow) {
      const int from = std::get<0>(flow);
      const std::size_t sent = matched.partner[matched.begin[rank] + i] - matched.begin[from];
      flow_[rank][i] = flow_[from][sent] = numbers[flow];
    });
  }

  // Once per rank and level, and once per rank.
  void weigh() {
    std::map<std::pair<std::int32_t, std::int32_t>, std::int64_t> odds;
    for (int rank = 0; rank < schedule_.problem.ranks; ++rank) {
      const Steps& steps = schedule_.steps[rank];
      std::vector<std::pair<std::int32_t, std::int32_t>> sent, received;  // level, flow
      for (std::size_t i = 0; i < steps.size(); ++i) {
        auto& ends = steps[i].verb == Verb::send ? sent : received;
        ends.emplace_back(levels_.of_step[rank][i], flow_[rank][i]);
        ends.emplace_back(-1, flow_[rank][i]);  // for the rank as a whole
      }
      for (auto* ends : {&sent, &received}) {
        std::sort(ends->begin(), ends->end());
        ends->erase(std::unique(ends->begin(), ends->end()), ends->end());
      }
      auto first = received.begin();
      for (const auto& [level, flow] : sent) {
        while (first != received.end() && first->first < level) ++first;
        for (auto other = first; other != received.end() && other->first == level; ++other) {
          odds[std::minmax(flow, other->second)] += level < 0 ? 1 : meets;
        }
      }
    }
    for (const auto& [flows, value] : odds) pairs_.push_back({flows.first, flows.second, value});
  }

  // The flow that stands for all that are tied to it, and whether `flow` lies in the other lane.
  std::pair<std::int32_t, bool> find(std::int32_t flow) const {
    bool other = false;
    while (tied_to_[flow].first != flow) {
      other ^= tied_to_[flow].second;
      flow = tied_to_[flow].first;
    }
    return {flow, other};
  }

  void split() {
    std::vector<std::int32_t> size(count_, 1);
    for (std::int32_t flow = 0; flow < count_; ++flow) tied_to_.emplace_back(flow, false);
    std::vector<Pair> worst = pairs_;
    std::stable_sort(worst.begin(), worst.end(),
                     [](const Pair& x, const Pair& y) { return x.odds > y.odds; });
    for (const Pair& pair : worst) {
      auto [a, a_other] = find(pair.a);
      auto [b, b_other] = find(pair.b);
      if (a == b) continue;
      if (size[a] < size[b]) std::swap(a, b);
      size[a] += size[b];
      tied_to_[b] = {a, a_other == b_other};
    }
    for (std::int32_t flow = 0; flow < count_; ++flow) lane_[flow] = find(flow).second;
  }

  // Every move makes the sum of odds within lanes smaller, so it ends.
  void improve() {
    std::vector<std::vector<std::pair<std::int32_t, std::int64_t>>> others(count_);
    for (const Pair& pair : pairs_) {
      others[pair.a].emplace_back(pair.b, pair.odds);
      others[pair.b].emplace_back(pair.a, pair.odds);
    }
    for (bool moved = true; moved;) {
      moved = false;
      for (std::int32_t flow = 0; flow < count_; ++flow) {
        std::vector<std::int64_t> odds(lanes_, 0);
        for (const auto& [other, value] : others[flow]) odds[lane_[other]] += value;
        const auto best = std::min_element(odds.begin(), odds.end());
        if (*best >= odds[lane_[flow]]) continue;
        lane_[flow] = std::int32_t(best - odds.begin());
        moved = true;
      }
    }
  }

  const Schedule& schedule_;
  const Levels& levels_;
  const int lanes_;
  std::int32_t count_ = 0;                              // of flows
  std::vector<std::vector<std::int32_t>> flow_;         // [rank][step]
  std::vector<Pair> pairs_;                             // by flows
  std::vector<std::pair<std::int32_t, bool>> tied_to_;  // [flow]; true: in the other lane
  std::vector<std::int32_t> lane_;                      // [flow]
};

}  // namespace

int lanes_for(int ranks) { return ranks < 2 ? 1 : 2 + ranks % 2; }

std::vector<std::vector<std::int32_t>> lanes_of(const Schedule& schedule, const Levels& levels,
                                                int lanes) {
  PATR_CHECK(lanes >= 1, ScheduleError, "expected lanes >= 1, got ", lanes);
  return Laning(schedule, levels, lanes).run();
}

}  // namespace patallreduce::schedule
