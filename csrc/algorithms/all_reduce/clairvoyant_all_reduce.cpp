// Clairvoyant all-reduce: of several ways the one that is done first under the arrivals foreseen.
//
// All of them are made and priced (pricing/simulation.h), each with as many messages as suit it:
//
//   hubs                 the earliest ranks sum shares and tell everybody; clairvoyant/hubs.h. The
//                        number of hubs and of their messages are found by local search
//   ring, prr, slt       those of these names, cut twice as finely while that helps
//   rabenseifner, radix_k, recursive_doubling   for short messages
//
// Those that are done within 0.3 % of the first are alike; of them the least average elapsed wins.
// The choice is a function of the Problem alone, so all ranks make it alike.
//
//   messages   2(P-1) for each piece of the data, but 2 log2 P whole ones in recursive_doubling
//   segments   of the Problem are what pieces are made of: a piece is a run of them, of equal
//              length within one, and travels as one message
//   depth      2 for hubs; 2(P-1) for ring and prr, P-1 and a pipeline for slt
//   sum order  as the way taken has it: another prediction may change the bits
//   source     the question: Proficz, Ocetkiewicz, J. Supercomput. (2020), future work; hubs and
//              the search: this project
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <set>
#include <utility>

#include "algorithms/algorithms.h"
#include "algorithms/arrival_order.h"
#include "algorithms/clairvoyant/hubs.h"
#include "algorithms/powers.h"
#include "algorithms/radix.h"
#include "pricing/simulation.h"

namespace patallreduce::algorithms {

using pricing::Simulation;
using schedule::Schedule;
using schedule::Step;

namespace {

constexpr double alike = 1.003;
constexpr double slowdown = 1.01;     // for a second price
constexpr double doubt = 1.01;        // what is left after that
constexpr double close = 1.03;        // to the first: those that are priced again
constexpr double worthwhile = 0.999;  // of a finer cut: costs less than so much of the coarser
constexpr std::int64_t most_messages = 400000;  // of a way that is priced
constexpr double hopeful = 1.5;                 // slower than the first: may be cut more finely
constexpr std::size_t most_refined = 2;         // of them, in more and fewer pieces

using Generator = Steps (*)(const Problem&, int);

struct Way {                      // to do it
  Generator generator = nullptr;  // null: over hubs
  Hubs hubs;
  int rows = 1;  // of pieces; without hubs a piece is a row
};

struct Finish {
  double last_s = HUGE_VAL;     // of all ranks, from the first arrival on
  double elapsed_s = HUGE_VAL;  // mean of finish - arrival
};

// A generator knows no link, only how long a segment takes and which part of that is latency.
struct Pace {
  std::vector<double> arrivals_s;  // [rank]
  double latency_s;
  double whole_s;  // to transfer the whole data, without latencies
  double sum_s;    // to sum it
  int units;       // equal parts of the data that its segments are runs of
};

// Infinite once it is clear that a rank finishes after `limit_s`.
Finish finish_of(const Schedule& schedule, const Pace& pace, double limit_s = HUGE_VAL) {
  const double share = Link{}.port_share;  // of the latency
  const double first_s = *std::min_element(pace.arrivals_s.begin(), pace.arrivals_s.end());
  const std::vector<double> finish_s =
      Simulation(schedule).finish_s(pace.units,
                                    {share * pace.latency_s, (1 - share) * pace.latency_s,
                                     pace.whole_s / pace.units, pace.sum_s / pace.units},
                                    pace.arrivals_s, limit_s + first_s);
  Finish finish{0, 0};
  for (std::size_t rank = 0; rank < finish_s.size(); ++rank) {
    finish.last_s = std::max(finish.last_s, finish_s[rank] - first_s);
    finish.elapsed_s += (finish_s[rank] - pace.arrivals_s[rank]) / schedule.problem.ranks;
  }
  return finish;
}

// With latencies and times of Problem, or in a world where only the order of arrivals counts:
// rounds that take no time fit between any two of them.
Pace pace_of(const Problem& problem) {
  const int ranks = problem.ranks;
  Pace pace{problem.arrivals_s, problem.latency_s, 0, 0, problem.segments};
  pace.arrivals_s.resize(ranks, 0);
  pace.sum_s = problem.sum_s * problem.segments;
  pace.whole_s = (problem.segment_time_s - problem.latency_s - problem.sum_s) * problem.segments;
  if (pace.whole_s > 0) return pace;
  pace.latency_s = pace.sum_s = 0;
  pace.whole_s = 1;
  const std::set<double> distinct(pace.arrivals_s.begin(), pace.arrivals_s.end());
  for (double& arrival_s : pace.arrivals_s)
    arrival_s = 4.0 * ranks * double(std::distance(distinct.begin(), distinct.find(arrival_s)));
  return pace;
}

class Search {
 public:
  explicit Search(const Problem& problem)
      : problem_(problem), ranks_(problem.ranks), pace_(pace_of(problem)) {
    sorted_s_ = pace_.arrivals_s;
    std::sort(sorted_s_.begin(), sorted_s_.end());
  }

  Way best() {
    std::vector<Tried> coarse;
    for (const Way& way : coarse_ways()) coarse.push_back({way, {finish(way), 0}});
    std::stable_sort(coarse.begin(), coarse.end(), [](const Tried& a, const Tried& b) {
      return a.finish.last_s < b.finish.last_s;
    });
    std::size_t hubs = 0;
    for (const auto& [way, finish] : coarse) {
      if (finish.last_s > hopeful * first_s_) continue;
      if (way.generator == nullptr && hubs++ < most_refined) refine(way, finish.last_s, true);
      if (way.generator == slt) {
        refine(way, finish.last_s, true);
        refine_by_halves();
      }
      // prr shows what it saves only in more than one row, and is a ring where it saves nothing.
      if (way.generator == prr || (together() && way.generator == ring))
        refine(way, finish.last_s, true);
    }
    price_the_first_again();
    const auto better = [this](const Tried& a, const Tried& b) { return rating(a) < rating(b); };
    return std::min_element(tried_.begin(), tried_.end(), better)->way;
  }

  // A way's steps over the problem's segments.
  std::vector<Steps> steps(const Way& way) const {
    std::vector<Steps> steps = steps_of_pieces(way);
    for (Steps& of_rank : steps) {
      for (Step& step : of_rank) {
        step.first = begin(step.first, pieces(way));
        step.last = begin(step.last, pieces(way));
      }
    }
    return steps;
  }

 private:
  struct Tried {
    Way way;
    Finish finish;
  };

  std::int32_t begin(std::int64_t piece, int pieces) const {
    return static_cast<std::int32_t>(piece * problem_.segments / pieces);
  }

  // Those that are alike by their average, the others behind them by their end.
  std::pair<double, double> rating(const Tried& tried) const {
    if (tried.finish.last_s <= first_s_ * alike) return {0, tried.finish.elapsed_s};
    return {tried.finish.last_s, 0};
  }

  Problem of_pieces(int pieces) const {
    Problem problem = problem_;
    problem.segments = pieces;
    problem.arrivals_s = pace_.arrivals_s;
    problem.segment_time_s = pace_.latency_s + pace_.whole_s / ranks_;  // prr's tau
    return problem;
  }

  std::vector<Steps> steps_of_pieces(const Way& way) const {
    const Problem problem = of_pieces(pieces(way));
    if (way.generator == nullptr) return over_hubs(problem, way.hubs);
    std::vector<Steps> steps;
    for (int rank = 0; rank < ranks_; ++rank) steps.push_back(way.generator(problem, rank));
    return steps;
  }

  bool together() const { return sorted_s_.front() == sorted_s_.back(); }

  int pieces(const Way& way) const {
    return way.generator == nullptr ? way.hubs.segments(way.rows, ranks_) : way.rows;
  }

  Schedule schedule(const Way& way) const {
    return {"", "all_reduce", of_pieces(pieces(way)), steps_of_pieces(way), false};
  }

  double finish(const Way& way) {
    if (!tried_.empty() && std::int64_t(2) * ranks_ * pieces(way) > most_messages) return HUGE_VAL;
    // Somewhat dearer ways are priced to their end: a finer cut may make them cheaper.
    const Finish finish = finish_of(schedule(way), pace_, 1.5 * first_s_);
    tried_.push_back({way, finish});
    first_s_ = std::min(first_s_, finish.last_s);
    return finish.last_s;
  }

  // Twice as many rows of pieces again and again, while that helps; or half as many.
  void refine(Way way, double last_s, bool finer) {
    for (bool helped = false;; helped = true) {
      const Way before = way;
      way.rows = finer ? 2 * way.rows : way.rows / 2;
      const bool possible =
          way.rows >= std::max(way.hubs.every, 1) && pieces(way) <= problem_.segments;
      const double next_s = possible ? finish(way) : HUGE_VAL;
      if (!(next_s < worthwhile * last_s)) {
        if (finer && !helped && (way.generator == nullptr || way.generator == slt))
          refine(before, last_s, false);
        return;
      }
      last_s = next_s;
    }
  }

  // Between half and twice a chain's best number of pieces, which depends on few pieces' latencies.
  void refine_by_halves() {
    const auto chain_is_better = [](const Tried& a, const Tried& b) {
      const bool chain = a.way.generator == slt, other_chain = b.way.generator == slt;
      return chain != other_chain ? chain : a.finish.last_s < b.finish.last_s;
    };
    const Way best = std::min_element(tried_.begin(), tried_.end(), chain_is_better)->way;
    for (const int rows : {best.rows * 3 / 2, best.rows * 3 / 4})
      if (rows >= 1 && rows <= problem_.segments) finish({slt, {}, rows});
  }

  // Over hubs messages of many ranks meet at a port, and a little more time for each can order them
  // otherwise and cost much: the worse of two prices counts.
  void price_the_first_again() {
    Pace slower = pace_;
    slower.latency_s *= slowdown;
    slower.whole_s *= slowdown;
    slower.sum_s *= slowdown;
    const double close_s = first_s_ * close;
    first_s_ = HUGE_VAL;
    for (Tried& tried : tried_) {
      if (tried.way.generator == nullptr && tried.finish.last_s <= close_s) {
        const Finish again = finish_of(schedule(tried.way), slower);
        tried.finish.last_s = doubt * std::max(tried.finish.last_s, again.last_s / slowdown);
        tried.finish.elapsed_s =
            doubt * std::max(tried.finish.elapsed_s, again.elapsed_s / slowdown);
      }
      first_s_ = std::min(first_s_, tried.finish.last_s);
    }
  }

  // Every kind of way, in few pieces.
  std::vector<Way> coarse_ways() const {
    const int parts = std::min(ranks_, problem_.segments);
    std::vector<Way> ways{{ring, {}, parts},
                          {rabenseifner, {}, power_of_two_within(parts)},
                          {radix_k, {}, ids_within(parts)},
                          {recursive_doubling, {}, 1}};
    if (!together()) ways.push_back({prr, {}, parts});
    // Of three late ranks in a chain the middle one takes all sums and then all results.
    if (ranks_ < 4 || unsent(sorted_s_, pace_.whole_s, ranks_ - 3) < 0.95) ways.push_back(chain());
    for (Hubs hubs : promising_hubs(sorted_s_, pace_.whole_s, problem_.segments)) {
      for (const bool ring : {false, true}) {
        hubs.ring = ring;
        Way way{nullptr, hubs, std::max(hubs.every, 2)};
        if (pieces(way) > problem_.segments) way.hubs.every = 0, way.rows = 1;
        ways.push_back(way);
      }
    }
    return ways;
  }

  // Filling the pipeline costs as much as the latencies of its messages.
  Way chain() const {
    const double busy_s = pace_.latency_s / 4;
    const double wanted = std::sqrt(std::max(ranks_ - 2, 1) * pace_.whole_s / busy_s);
    // Of equal length: a chain is as slow as its longest piece.
    const double length = std::max(std::round(problem_.segments / wanted), 1.0);
    const auto pieces = static_cast<int>(std::ceil(problem_.segments / length));
    return {slt, {}, std::min(pieces, problem_.segments)};
  }

  const Problem& problem_;
  const int ranks_;
  const Pace pace_;
  std::vector<double> sorted_s_;
  std::vector<Tried> tried_;
  double first_s_ = HUGE_VAL;
};

}  // namespace

std::vector<Steps> clairvoyant_all_reduce(const Problem& problem) {
  if (problem.ranks == 1) return std::vector<Steps>(1);
  Search search(problem);
  return search.steps(search.best());
}

Steps clairvoyant_all_reduce_steps(const Problem& problem, int rank) {
  return std::move(clairvoyant_all_reduce(problem)[rank]);
}

// It makes messages of runs of segments, as many as suit the arrivals. At least 16 for each rank,
// so that the runs are equal within a sixteenth, and as many as a chain would like, in whole
// multiples of P.
std::int64_t clairvoyant_all_reduce_segments(int ranks, const Bucket& bucket, const Link& link) {
  const std::int64_t chain = slt_segments(ranks, bucket, link);
  return ranks * std::max<std::int64_t>((chain + ranks - 1) / ranks, 16);
}

}  // namespace patallreduce::algorithms
