// Whether something acts as a barrier between two iterations, such as a sum of losses. Then whom an
// all-reduce lets go early starts no earlier for that.
//
// A line through by how much earlier than the time before ranks were let go, and by how much
// earlier they then arrived, both against the mean of all: its slope is 1 where each goes on by
// itself, 0 where all wait for the last. Differences, since who is late stays late.
//
//   source  simple linear regression and the standard error of its slope: Kenney and Keeping,
//           Mathematics of Statistics 1 (1962), chapter 15
#pragma once

#include <vector>

namespace patallreduce::monitor {

class Barriers {
 public:
  // By rank: when the last iteration let it go, and when it arrived in this one.
  void add(const std::vector<double>& free_s, const std::vector<double>& arrived_s);
  // Beyond doubt.
  bool seen() const;

 private:
  std::vector<double> free_s_, arrived_s_;  // by rank, the last ones, from their means
  // Of the differences, older ones with less weight: how many, and sums of squares.
  double count_ = 0, free_ = 0, arrived_ = 0, both_ = 0;
};

}  // namespace patallreduce::monitor
