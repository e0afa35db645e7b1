// Who takes part in a round of Clairvoyant, and in which order.
//
// A rank is available from its arrival on, later by one round's time after every round it took part
// in. With the earliest available rank all those take part that are there before it is available
// again, so the ranks of a group lie within one round's time of each other, stay together until
// they have nothing left to send, and never change their order. That makes it a merge of two sorted
// lists: O(group) per round, O(P log P) in all (CLV20, section 5.2).
//
// Times are counted in rounds, whole ones and a rest, so that no rounding error can change an order
// however many rounds are added. Rounds in which only one rank would take part are skipped and not
// counted (CLV20, section 5.1): a round's number is that of the rounds with messages before it.
#pragma once

#include <cstdint>
#include <vector>

#include "schedule/schedule.h"

namespace patallreduce::algorithms {

using schedule::Problem;

class Group {
 public:
  // With segment_time_s = 0 rounds take no time: before the next arrival any number of them fit.
  explicit Group(const Problem& problem);

  // Forms the group of the next round that has at least two ranks; false: there is none.
  bool next();
  // This rank has sent everything: it is in no later group.
  void leave(std::int32_t rank) { left_[rank] = true; }

  // The root first, if it is there, then by availability; ties by arrival, then by rank. The first
  // is the sink.
  const std::vector<std::int32_t>& ranks() const { return ranks_; }
  bool has_root() const { return root_is_here_; }
  // The first to be available: that of ranks() but for a root that was put before it.
  std::int32_t earliest() const { return here_.front(); }
  // Those who were in no group before.
  const std::vector<std::int32_t>& joined() const { return joined_; }
  // Whether a comes before b in ranks().
  bool before(std::int32_t a, std::int32_t b) const;

  // All ranks in an order of which that of any group is a rotation, root apart: by the rest of the
  // arrival after whole rounds, then by arrival, then by rank (CLV20, section 5.4.3).
  std::vector<std::int32_t> columns() const;

 private:
  struct Time {
    std::int64_t rounds;
    double rest_s;  // less than a round
  };
  static bool earlier(const Time& a, const Time& b) {
    return a.rounds != b.rounds ? a.rounds < b.rounds : a.rest_s < b.rest_s;
  }
  bool sooner(std::int32_t a, std::int32_t b) const;  // available, both being here
  double arrival_s(std::int32_t rank) const {
    return problem_.arrivals_s.empty() ? 0 : problem_.arrivals_s[rank];
  }
  bool someone_waits() const { return waiting_ < order_.size(); }
  Time available(std::int32_t rank) const {
    return {since_[rank].rounds + rounds_, since_[rank].rest_s};
  }
  void join();
  void list();

  const Problem& problem_;
  std::vector<Time> arrivals_;       // [rank]
  std::vector<Time> since_;          // [rank] when available, less the rounds before it joined
  std::vector<std::int32_t> order_;  // ranks by arrival
  std::size_t waiting_ = 0;          // those of order_ from here on have not joined
  std::int64_t rounds_ = 0;          // passed, idle ones included
  std::vector<std::int32_t> here_;   // joined and not left, by availability
  std::vector<std::int32_t> ranks_, joined_;
  std::vector<char> left_;
  bool root_is_here_ = false;
};

}  // namespace patallreduce::algorithms
