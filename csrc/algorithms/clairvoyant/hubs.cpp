#include "algorithms/clairvoyant/hubs.h"

#include <algorithm>
#include <cstdint>
#include <set>
#include <utility>

#include "algorithms/arrival_order.h"

namespace patallreduce::algorithms {

using schedule::Verb;

namespace {

class HubSteps {
 public:
  HubSteps(const Problem& problem, const Hubs& hubs)
      : problem_(problem),
        ranks_(problem.ranks),
        hubs_(hubs),
        order_(arrival_order(problem, 0).ranks),
        steps_(problem.ranks) {
    for (std::int32_t first = 0; first < problem.segments;) {
      const int hubs_here = hubs.row(static_cast<int>(rows_.size()), ranks_);
      rows_.push_back({first, std::min(hubs_here, problem.segments - first)});
      first += hubs_here;
    }
  }

  std::vector<Steps> make() {
    for (int place = 0; place < ranks_; ++place) {
      const bool in_ring = hubs_.ring && place < hubs_.early;
      if (in_ring) around_a_ring(place);
      send_shares(place, in_ring ? hubs_.early : 0);
      take_shares(place, in_ring ? hubs_.early : 0);
    }
    tell();
    return std::move(steps_);
  }

 private:
  struct Row {
    std::int32_t first;  // segment; its hub is place 0, that of the next place 1
    int width;
  };

  // A rank's own data leave in the order of the program, since all of them are ready when it
  // arrives: those who come together begin at different hubs, so that no two meet at one.
  void send_shares(int place, int first_hub) {
    for (const Row& row : rows_) {
      for (int x = 1; x <= row.width; ++x) {
        const int hub = (place + x) % row.width;
        if (hub >= first_hub && hub != place) push(place, Verb::send, row.first + hub, hub);
      }
    }
  }

  void take_shares(int hub, int first_place) {
    // Late hubs are in no ring: all others send them their shares.
    const int first = hub < hubs_.early ? first_place : 0;
    std::vector<int> places;
    int width = -1;
    for (const Row& row : rows_) {
      if (hub >= row.width) continue;
      if (row.width != width) places = others(hub, first, row.width);
      width = row.width;
      for (const int place : places) push(hub, Verb::recv_reduce, row.first + hub, place);
    }
  }

  // In the order in which their shares come.
  std::vector<int> others(int hub, int first_place, int width) const {
    std::vector<int> places;
    for (int place = first_place; place < ranks_; ++place)
      if (place != hub) places.push_back(place);
    const auto turn = [&](int place) { return (hub + ranks_ * width - place - 1) % width; };
    std::stable_sort(places.begin(), places.end(), [&](int a, int b) {
      const double a_s = arrival_s(a), b_s = arrival_s(b);
      return a_s != b_s ? a_s < b_s : turn(a) < turn(b);
    });
    return places;
  }

  // The segments of the early hubs; each ends at its own.
  void around_a_ring(int hub) {
    const int hubs = hubs_.early;
    const int next = (hub + 1) % hubs, previous = (hub + hubs - 1) % hubs;
    for (int hop = 0; hop + 1 < hubs; ++hop) {
      const int out = (hub + 2 * hubs - 1 - hop) % hubs, in = (hub + 2 * hubs - 2 - hop) % hubs;
      for (const Row& row : rows_) {
        if (out < row.width) push(hub, Verb::send, row.first + out, next);
        if (in < row.width) push(hub, Verb::recv_reduce, row.first + in, previous);
      }
    }
  }

  // In turn, beginning behind the hub.
  void tell() {
    for (const Row& row : rows_) {
      for (int hub = 0; hub < row.width; ++hub) {
        for (int x = 1; x < ranks_; ++x) {
          const int place = (hub + x) % ranks_;
          push(hub, Verb::send, row.first + hub, place);
          push(place, Verb::recv, row.first + hub, hub);
        }
      }
    }
  }

  double arrival_s(int place) const {
    return problem_.arrivals_s.empty() ? 0 : problem_.arrivals_s[order_[place]];
  }
  void push(int place, Verb verb, std::int32_t segment, int peer) {
    steps_[order_[place]].push_back({verb, order_[peer], segment, segment + 1});
  }

  const Problem& problem_;
  const int ranks_;
  const Hubs hubs_;
  const std::vector<std::int32_t> order_;
  std::vector<Row> rows_;
  std::vector<Steps> steps_;  // [rank]
};

// How long after the last arrival a port is busy, in transfers of the whole data, if all else
// fits: what ranks have not sent by then, and results.
double busy(const Hubs& hubs, const std::vector<double>& sorted_s, double whole_s) {
  const int ranks = static_cast<int>(sorted_s.size());
  const int late = ranks - hubs.early;
  const double share = 1 / (hubs.early + (hubs.every > 0 ? double(late) / hubs.every : 0));
  const double late_share = hubs.every > 0 ? share / hubs.every : 0;
  double all_unsent = 0, most = 0;
  for (int place = 0; place < ranks; ++place) all_unsent += unsent(sorted_s, whole_s, place);
  for (int place = 0; place < ranks; ++place) {
    const double own_unsent = unsent(sorted_s, whole_s, place);
    const double own = place < hubs.early ? share : late_share;
    const double sends = own_unsent * (1 - own) + (ranks - 1) * own;
    const double takes = 1 - own + own * (all_unsent - own_unsent);
    most = std::max({most, sends, takes});
  }
  return most;
}

}  // namespace

double unsent(const std::vector<double>& sorted_s, double whole_s, int place) {
  return std::max(1 - (sorted_s.back() - sorted_s[place]) / whole_s, 0.0);
}

std::vector<Hubs> promising_hubs(const std::vector<double>& sorted_s, double whole_s,
                                 int segments) {
  constexpr std::size_t most_promising = 3;  // sets of hubs that are priced
  const int ranks = static_cast<int>(sorted_s.size());
  if (ranks > segments) return {{segments}};
  std::vector<Hubs> all;
  std::set<int> tried{ranks};
  const auto add = [&](int early) {
    if (early < 1 || !tried.insert(early).second) return;
    for (const int every : {0, 2, 4}) all.push_back({early, every});
  };
  for (const double ahead : {0.0, 0.1, 0.25, 0.5, 1.0}) {
    const double until_s = sorted_s.back() - ahead * whole_s;
    add(static_cast<int>(std::lower_bound(sorted_s.begin(), sorted_s.end(), until_s) -
                         sorted_s.begin()));
  }
  add(ranks - 1);
  add(ranks * 3 / 4);
  if (sorted_s.front() == sorted_s.back()) all.clear();
  std::stable_sort(all.begin(), all.end(), [&](const Hubs& a, const Hubs& b) {
    return busy(a, sorted_s, whole_s) < busy(b, sorted_s, whole_s);
  });
  if (all.size() > most_promising) all.resize(most_promising);
  all.push_back({ranks});
  return all;
}

std::vector<Steps> over_hubs(const Problem& problem, const Hubs& hubs) {
  return HubSteps(problem, hubs).make();
}

}  // namespace patallreduce::algorithms
