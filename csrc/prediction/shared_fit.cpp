#include "prediction/shared_fit.h"

#include <cmath>
#include <utility>

namespace patallreduce::prediction {

namespace {

constexpr double kept = 0.9;  // of the older iterations' weight: job.h drops the fit when it fails
constexpr double filled_up = 2;  // samples' worth of the prior
constexpr std::array<double, 3> prior{1, -1, 1};
// A common shift says little, but it is all that a single rank has.
constexpr double common_share = 0.01;

using System = std::array<std::array<double, 4>, 3>;

// Gauss with pivoting; false where the system has no clear solution.
bool solve(System a, std::array<double, 3>* x) {
  for (int k = 0; k < 3; ++k) {
    int pivot = k;
    for (int row = k + 1; row < 3; ++row) {
      if (std::abs(a[row][k]) > std::abs(a[pivot][k])) pivot = row;
    }
    std::swap(a[k], a[pivot]);
    if (!(std::abs(a[k][k]) > 1e-300)) return false;
    for (int row = k + 1; row < 3; ++row) {
      const double share = a[row][k] / a[k][k];
      for (int column = k; column < 4; ++column) a[row][column] -= share * a[k][column];
    }
  }
  for (int k = 2; k >= 0; --k) {
    double rest = a[k][3];
    for (int column = k + 1; column < 3; ++column) rest -= a[k][column] * (*x)[column];
    (*x)[k] = rest / a[k][k];
  }
  return std::isfinite((*x)[0]) && std::isfinite((*x)[1]) && std::isfinite((*x)[2]);
}

}  // namespace

void SharedFit::add(const Sample& sample, double arrival) {
  const std::array<double, columns> row{sample.usual_arrival, sample.usual_edge, sample.edge,
                                        arrival};
  ++count_;
  for (int i = 0; i < columns; ++i) {
    sum_[i] += row[i];
    for (int j = 0; j < columns; ++j) products_[i][j] += row[i] * row[j];
  }
}

void SharedFit::close() {
  if (count_ == 0) return;
  weight_ = kept * weight_ + count_;
  for (int i = 0; i < columns; ++i) {
    for (int j = 0; j < columns; ++j) {
      const double common = sum_[i] * sum_[j] / count_;
      moments_[i][j] = kept * moments_[i][j] + products_[i][j] - common + common_share * common;
    }
  }
  count_ = 0;
  sum_ = {};
  products_ = {};

  System system{};
  for (int i = 0; i < unknowns; ++i) {
    for (int j = 0; j < columns; ++j) system[i][j] = moments_[i][j];
    // At least a nanosecond's square, so that a deviation nobody ever had keeps its prior.
    const double strength = filled_up * (moments_[i][i] / weight_ + 1e-18);
    system[i][i] += strength;
    system[i][unknowns] += strength * prior[i];
  }
  if (!solve(system, &factor_)) factor_ = prior;
}

double SharedFit::at(const Sample& sample) const {
  return factor_[0] * sample.usual_arrival + factor_[1] * sample.usual_edge +
         factor_[2] * sample.edge;
}

}  // namespace patallreduce::prediction
