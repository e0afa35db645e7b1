// Clairvoyant's rounds, whatever finds the peers.
//
// `Peers` keeps which rank still holds which segment and answers, for one rank after the other,
// from whom it receives which segment in this round:
//
//   void begin(const Group& group);                    a round: the group is formed
//   Found find(std::int32_t rank, bool is_sink);       see Found
//   bool holds(std::int32_t rank, std::int32_t segment)
//   void move(std::int32_t from, std::int32_t to, std::int32_t segment);
//                                                      `from` has sent; `to` may not send this now
//   void end(const Group& group);                      what was received counts as held again
//   std::size_t bytes() const;                         of its state
//
// Source: CLV20, Listing 2; the state P' of a segment received in this round, section 4.2.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "algorithms/clairvoyant/group.h"

namespace patallreduce::algorithms {

using schedule::Step;
using schedule::Steps;
using schedule::Verb;

struct ClairvoyantSchedule {
  std::vector<Steps> steps;     // [rank]
  std::size_t state_bytes = 0;  // memory for what every rank holds, the schedule's own apart
};

// The lowest segment that `rank` holds (a sink: any) and someone else in the group can send who has
// sent nothing yet in this round; of these ranks the first in the group.
struct Found {
  std::int32_t peer = -1;  // -1: nobody can send anything to it
  std::int32_t segment = -1;
};

// A schedule of 512 ranks and segments is 10 MB, written in as many places as there are ranks: the
// next line of each is fetched ahead, which makes the whole a third faster.
inline void add_step(Steps& steps, Verb verb, std::int32_t peer, std::int32_t segment,
                     std::int32_t round) {
  Step& step = steps.emplace_back();
  step.verb = verb;
  step.peer = peer;
  step.first = segment;
  step.last = segment + 1;
  step.round = round;
  __builtin_prefetch(&step + 5, 1);
}

// `only`: the rank whose steps are kept; -1: all.
template <typename Peers>
ClairvoyantSchedule run_rounds(const Problem& problem, std::int32_t only = -1) {
  ClairvoyantSchedule made;
  made.steps.resize(problem.ranks);
  // Every rank but the root sends each segment once, and a few of them again as a sink.
  for (std::int32_t rank = 0; rank < problem.ranks; ++rank)
    if (problem.ranks > 1 && (only < 0 || only == rank))
      made.steps[rank].reserve(2 * std::size_t(problem.segments) + 16);
  Group group(problem);
  Peers peers(problem, group);
  std::vector<std::int32_t> held(problem.ranks, problem.segments);  // how many segments
  for (std::int32_t round = 0; group.next(); ++round) {
    peers.begin(group);
    const std::int32_t sink = group.ranks().front();
    for (const std::int32_t to : group.ranks()) {
      const Found found = peers.find(to, to == sink);
      if (found.peer < 0) continue;
      const std::int32_t from = found.peer, s = found.segment;
      const bool sums = peers.holds(to, s);  // else a sink that has sent it takes it back
      if (only < 0 || only == from) add_step(made.steps[from], Verb::send, to, s, round);
      if (only < 0 || only == to)
        add_step(made.steps[to], sums ? Verb::recv_reduce : Verb::recv, from, s, round);
      peers.move(from, to, s);
      if (!sums) ++held[to];
      if (--held[from] == 0) group.leave(from);
    }
    peers.end(group);
  }
  made.state_bytes = peers.bytes();
  return made;
}

}  // namespace patallreduce::algorithms
