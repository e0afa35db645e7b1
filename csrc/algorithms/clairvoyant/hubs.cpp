#include "algorithms/clairvoyant/hubs.h"

#include <algorithm>
#include <cstdint>
#include <numeric>

#include "algorithms/arrival_order.h"

namespace patallreduce {

namespace {

class HubSteps {
 public:
  HubSteps(const Problem& problem, const Hubs& hubs)
      : ranks_(problem.ranks),
        segments_(problem.segments),
        hubs_(hubs.count),
        rows_((problem.segments + hubs.count - 1) / hubs.count),
        problem_(problem),
        order_(arrival_order(problem, 0).ranks),
        steps_(problem.ranks) {}

  // A rank's own data leave in the order of the program, since all of them are ready when it
  // arrives: those who come together begin at different hubs, so that no two meet at one.
  void send_shares(int place, int first_hub, int hubs) {
    for (int row = 0; row < rows_; ++row)
      for (int x = 0; x < hubs; ++x) add(place, Verb::send, row, (first_hub + x) % hubs_, -1);
  }

  void take_shares(int hub, const std::vector<int>& places) {
    for (int row = 0; row < rows_; ++row)
      for (const int place : places) add(hub, Verb::recv_reduce, row, hub, place);
  }

  void around_a_ring(int hub) {
    const int next = (hub + 1) % hubs_, previous = (hub + hubs_ - 1) % hubs_;
    for (int hop = 0; hop + 1 < hubs_; ++hop) {
      const int out = (hub + 2 * hubs_ - 1 - hop) % hubs_, in = (hub + 2 * hubs_ - 2 - hop) % hubs_;
      for (int row = 0; row < rows_; ++row) {
        add(hub, Verb::send, row, out, next);
        add(hub, Verb::recv_reduce, row, in, previous);
      }
    }
  }

  // To the others in turn, beginning behind the hub.
  void tell() {
    for (std::int32_t s = 0; s < segments_; ++s) {
      const int hub = s % hubs_;
      for (int x = 1; x < ranks_; ++x) {
        const int place = (hub + x) % ranks_;
        push(hub, {Verb::send, order_[place], s, s + 1});
        push(place, {Verb::recv, order_[hub], s, s + 1});
      }
    }
  }

  // Those that are no hubs, in the order in which their shares reach this one.
  std::vector<int> others(int hub) const {
    std::vector<int> places(ranks_ - hubs_);
    std::iota(places.begin(), places.end(), hubs_);
    const auto turn = [&](int place) { return (hub + ranks_ * hubs_ - place) % hubs_; };
    std::stable_sort(places.begin(), places.end(), [&](int a, int b) {
      const double a_s = arrival_s(a), b_s = arrival_s(b);
      return a_s != b_s ? a_s < b_s : turn(a) < turn(b);
    });
    return places;
  }

  std::vector<Steps> take() { return std::move(steps_); }

 private:
  double arrival_s(int place) const {
    return problem_.arrivals_s.empty() ? 0 : problem_.arrivals_s[order_[place]];
  }
  void push(int place, const Step& step) { steps_[order_[place]].push_back(step); }
  // A step on the segment that `hub` has in this row; `peer`: a place, -1: the hub itself.
  void add(int place, Verb verb, int row, int hub, int peer) {
    const std::int32_t s = row * hubs_ + hub;
    if (s < segments_) push(place, {verb, order_[peer < 0 ? hub : peer], s, s + 1});
  }

  const int ranks_, segments_, hubs_, rows_;
  const Problem& problem_;
  const std::vector<std::int32_t> order_;
  std::vector<Steps> steps_;  // [rank]
};

}  // namespace

std::vector<Steps> over_hubs(const Problem& problem, const Hubs& hubs) {
  HubSteps steps(problem, hubs);
  for (int place = hubs.count; place < problem.ranks; ++place)
    steps.send_shares(place, place % hubs.count, hubs.count);
  for (int hub = 0; hub < hubs.count; ++hub) {
    if (hubs.ring) {
      steps.around_a_ring(hub);
    } else {
      std::vector<int> fellows;
      for (int x = 1; x < hubs.count; ++x) fellows.push_back((hub + hubs.count - x) % hubs.count);
      steps.send_shares(hub, hub + 1, hubs.count - 1);
      steps.take_shares(hub, fellows);
    }
    steps.take_shares(hub, steps.others(hub));
  }
  steps.tell();
  return steps.take();
}

}  // namespace patallreduce
