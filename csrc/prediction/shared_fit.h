// What a rank's own past and its progress are worth as signs of its arrival, fitted over all ranks.
//
// One rank alone cannot tell a habit from chance: after a late iteration, will it be late again?
// All ranks of the job together can. With d, m, u the deviations of a rank's usual arrival, of its
// usual edge and of this iteration's edge from the mean of all ranks,
//
//   arrival - mean usual arrival = a d + b m + c u
//
// is fitted by least squares within each iteration (what moves all ranks alike does not change
// their order), older iterations counting less. Where lateness stays with a rank a is near 1;
// where it wanders a is near 0, and the edges alone order the ranks. Few samples are filled up
// with (1, -1, 1): the rank's own usual arrival moved by how late its edge is.
//
//   source  shrinking many noisy means together: James and Stein, Berkeley Symposium (1961)
#pragma once

#include <array>

namespace patallreduce::prediction {

class SharedFit {
 public:
  struct Sample {
    double usual_arrival = 0, usual_edge = 0, edge = 0;  // deviations from the job's means
  };

  void add(const Sample& sample, double arrival);
  void close();  // the iteration is complete: solve
  bool known() const { return weight_ > 0; }
  double at(const Sample& sample) const;

 private:
  static constexpr int unknowns = 3;
  static constexpr int columns = unknowns + 1;  // the last: the arrival

  int count_ = 0;  // of this iteration
  std::array<double, columns> sum_{};
  std::array<std::array<double, columns>, columns> products_{};
  double weight_ = 0;  // of all iterations
  std::array<std::array<double, columns>, columns> moments_{};
  std::array<double, unknowns> factor_{1, -1, 1};
};

}  // namespace patallreduce::prediction
