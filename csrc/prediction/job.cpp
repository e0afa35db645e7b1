#include "prediction/job.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "prediction/times.h"

namespace patallreduce::prediction {

namespace {

constexpr double newest_error_share = 0.4;
constexpr double common_error_share = 0.01;  // of an error that all ranks share

}  // namespace

void Mean::put(double* mine, bool* counted, double value) {
  if (*counted) {
    sum_ -= *mine;
  } else {
    ++count_;
    *counted = true;
  }
  *mine = value;
  sum_ += value;
}

void Job::begin(JobMember* member) {
  if (member->round == round_) close();
}

void Job::report(JobMember* member, int depth, const Components& said_s, Component followed,
                 double arrival_s) {
  // What was said for want of better, untried, tells nothing of later errors.
  if (error_s(depth, followed) >= 0) {
    const double error = said_s[followed] - arrival_s;
    member->error[depth] = error;
    member->said |= 1u << depth;
    ++followed_[depth].count;
    followed_[depth].sum += error;
  }
  for (std::size_t c = 0; c < component_count; ++c) {
    if (std::isnan(said_s.value[c])) continue;
    const double error = said_s.value[c] - arrival_s;
    Errors& errors = errors_[depth][c];
    ++errors.count;
    errors.sum += error;
    errors.squares += error * error;
  }
}

void Job::fit(int depth, const SharedFit::Sample& sample, double arrival_s) {
  fits_[depth].add(sample, arrival_s - frozen_[0]);
}

void Job::settle(JobMember* member, double usual_arrival_s, const Edges& edges) {
  const auto put = [&](int depth, double value) {
    JobMember::Value& mine = member->usual[depth];
    means_[depth].put(&mine.value, &mine.counted, value);
  };
  put(0, usual_arrival_s);
  for (int slot = 0; slot < Edges::slots; ++slot) {
    const History& usual_s = edges.usual_offset_s(slot);
    if (usual_s.count() > 0) put(slot + 1, usual_s.exponential());
  }
  member->round = round_;
  if (++reported_ >= ranks_) close();
}

void Job::close() {
  ++round_;
  reported_ = 0;
  closed_ = followed_;
  followed_ = {};
  for (int depth = 0; depth < depths; ++depth) {
    for (Errors& errors : errors_[depth]) {
      if (errors.count == 0) continue;
      const double mean = errors.sum / errors.count;
      const double within = std::max(0.0, errors.squares / errors.count - mean * mean);
      const double square = within + common_error_share * mean * mean;
      errors.recent = errors.recent < 0
                          ? square
                          : errors.recent + newest_error_share * (square - errors.recent);
      errors.count = 0;
      errors.sum = errors.squares = 0;
    }
    fits_[depth].close();
    frozen_[depth] = means_[depth].value();
  }
}

Component Job::best(int depth, const Components& said_s) const {
  // Until it has been tried: progress if its meaning has been learned, else the last value.
  Component best = Component::last;
  if (std::isnan(said_s[best])) best = Component::linear;
  if (!std::isnan(said_s[Component::additive])) best = Component::additive;
  if (!std::isnan(said_s[Component::shared])) best = Component::shared;
  double least = errors_[depth][std::size_t(best)].recent;
  if (least < 0) return best;
  for (std::size_t c = 0; c < component_count; ++c) {
    const double recent = errors_[depth][c].recent;
    if (std::isnan(said_s.value[c]) || recent < 0 || recent >= least) continue;
    best = Component(c);
    least = recent;
  }
  return best;
}

double Job::error_s(int depth, Component component) const {
  const double recent = errors_[depth][std::size_t(component)].recent;
  return recent < 0 ? recent : std::sqrt(recent);
}

double Job::square(const JobMember& member, int depth) const {
  if (member.round + 1 != round_ || !(member.said & (1u << depth))) return -1;
  const double ranks = closed_[depth].count;
  // Alone there is nothing to share; and a mean of few follows each of them.
  if (ranks <= 1) return member.error[depth] * member.error[depth];
  const double own = member.error[depth] - closed_[depth].sum / ranks;
  return own * own * ranks / (ranks - 1);
}

bool Job::sample(const History& usual_arrival_s, const Edges& edges, const Edge* edge,
                 SharedFit::Sample* sample) const {
  if (usual_arrival_s.count() == 0) return false;
  sample->usual_arrival = usual_arrival_s.exponential() - frozen_[0];
  if (!edge) return true;
  const History& usual_edge_s = edges.usual_offset_s(edge->slot);
  if (usual_edge_s.count() == 0) return false;
  sample->usual_edge = usual_edge_s.exponential() - frozen_[edge->slot + 1];
  sample->edge = edge->offset_s - frozen_[edge->slot + 1];
  return true;
}

double Job::shared_s(int depth, const SharedFit::Sample& sample) const {
  if (!fits_[depth].known()) return std::numeric_limits<double>::quiet_NaN();
  const double shared_s = frozen_[0] + fits_[depth].at(sample);
  return std::abs(shared_s) <= longest_s ? shared_s : std::numeric_limits<double>::quiet_NaN();
}

}  // namespace patallreduce::prediction
