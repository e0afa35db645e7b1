// How much of the data each rank owns where all exchange directly: ranks with wide ports that come
// early own more, so that no port is in use for longer than has to be.
//
// Who owns x_i of the data takes in the others' x_i, P - 1 of them, and gives out its sum as often;
// of the rest, 1 - x_i, it gives out its own values and takes in the sums. So its port is in use
// for 1 + (P - 2) x_i in either direction, in units of the whole data. The earliest end T is the
// first for which shares that fit add up to 1:
//
//   out    1 + (P - 2) x_i      <= (T - a_i) b_i       from its own arrival a_i on
//   sums   (P - 1) x_i          <= (T - a_last) b_i    which leave after the last arrival
//   in     1 + (n - 1) x_i      <= (T - a_last) b_i    where the others have as much unsent then as
//                                                      n ranks that just come: each sends to all
//                                                      at once, from its arrival on
//
// Equal ports, all together: 1/P each, and T = 2 (P - 1)/P. One rank very late, or with a port of
// less than P/(2 (P - 1)) of the others': it owns nothing, and T is what its port takes for the
// data once.
//
//   source  ours; all together the shares are those of arXiv:2106.10207, section 3.2, which finds
//           them by a linear program. Finishes and ports as in pricing/lower_bound.h
#pragma once

#include <cstdint>
#include <vector>

#include "schedule/schedule.h"

namespace patallreduce::algorithms {

using schedule::Problem;

// In units of the whole data, and of its time through the widest port. All integers, so that any
// machine gets the same.
class Shares {
 public:
  static constexpr std::int64_t unit = 1 << 20;

  // arrivals: in units, one per rank, two or more; ports: as in Problem.
  Shares(const std::vector<double>& arrivals, const std::vector<std::int32_t>& ports);

  // How many segments each owns.
  std::vector<std::int64_t> earliest(std::int64_t segments) const;
  // When each has its results, from the first arrival on, if they own so much and the widest port
  // is as fast as so many pairs of ranks.
  std::vector<double> ends(const std::vector<std::int64_t>& owned, double partners) const;

 private:
  std::int64_t through(std::size_t rank, std::int64_t time) const;
  std::vector<std::int64_t> most(std::int64_t end) const;
  std::int64_t least_end() const;
  // What each owns; their sum is 1 or more: only what they are to each other counts.
  std::vector<std::int64_t> earliest() const;
  std::int64_t others_unsent(std::size_t rank) const { return all_unsent_ - unsent_[rank]; }

  std::vector<std::int64_t> arrivals_, widths_;  // by rank; the first arrival is 0
  std::int64_t widest_ = 1, last_ = 0;           // port, arrival
  std::vector<std::int64_t> unsent_;  // by rank: of its values when the last rank arrives
  std::int64_t all_unsent_ = 0;
};

// Who owns which share: nodes, or ranks where no two share one.
struct Owners {
  std::vector<std::vector<std::int32_t>> members;  // ranks of each, in order of arrival
  std::vector<int> node_of;                        // by rank
  std::vector<double> arrivals_s;                  // of their last ranks
  std::vector<std::int32_t> shares;                // segments; their sum is problem.segments
};

// A node's port is its first rank's.
Owners owners(const Problem& problem);

}  // namespace patallreduce::algorithms
