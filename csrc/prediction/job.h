// What the ranks of one job have learned together: which component is right, and how a rank's
// past and progress bear on its arrival.
//
// Per depth (no edge yet, or the slot of the newest edge) and component, the job keeps the recent
// squared error. It follows the leader: the component with the least error is used, by all ranks
// alike, because a mixture of optimists and pessimists orders ranks by who predicts, not by who is
// late. For the same reason an error that all ranks share counts little.
//
// An iteration is closed when all ranks have reported, or when one reports again.
//
//   cost    11 kB per job; about 0.1 us per report. Not thread-safe, nor are its predictors
//   source  after Herbster and Warmuth, Tracking the Best Expert, Machine Learning 32 (1998)
#pragma once

#include <array>
#include <cstdint>

#include "prediction/components.h"
#include "prediction/edges.h"
#include "prediction/shared_fit.h"

namespace patallreduce::prediction {

// Depth 0: no edge yet; slot + 1: that slot holds the newest edge.
constexpr int depths = Edges::slots + 1;

// Mean over ranks of one value each, which the ranks replace from time to time.
class Mean {
 public:
  void put(double* mine, bool* counted, double value);
  double value() const { return count_ ? sum_ / count_ : 0; }

 private:
  double sum_ = 0;
  int count_ = 0;
};

// A rank's share in the job's means.
struct JobMember {
  struct Value {
    double value = 0;
    bool counted = false;
  };
  std::array<Value, depths> usual;     // [0] arrival, [slot + 1] edge
  std::uint64_t round = ~0ull;         // reported last
  std::array<double, depths> error{};  // of what was said in that round
  std::uint32_t said = 0;              // bit per depth: there is an error
};

class Job {
 public:
  explicit Job(int ranks) : ranks_(ranks) {}

  // A rank that has reported begins anew: whoever did not report in this iteration will not.
  void begin(JobMember* member);
  // What each component said at `depth` and what came, before the rank learns from it. `followed`
  // was the best.
  void report(JobMember* member, int depth, const Components& said_s, Component followed,
              double arrival_s);
  void fit(int depth, const SharedFit::Sample& sample, double arrival_s);
  // The rank's new usual arrival and edges; ends its report.
  void settle(JobMember* member, double usual_arrival_s, const Edges& edges);

  // Of the components that say something.
  Component best(int depth, const Components& said_s) const;
  double error_s(int depth, Component component) const;  // < 0: not known
  // Square of the member's error at `depth` in its last round, what all ranks share taken out.
  // < 0: it said nothing, or the round is not over or long ago.
  double square(const JobMember& member, int depth) const;
  // Deviations from the job's means; false: not known at this depth.
  bool sample(const History& usual_arrival_s, const Edges& edges, const Edge* edge,
              SharedFit::Sample* sample) const;
  double shared_s(int depth, const SharedFit::Sample& sample) const;  // NaN: not known

 private:
  struct Errors {
    int count = 0;  // of this iteration
    double sum = 0, squares = 0;
    double recent = -1;  // mean square over iterations; < 0: never seen
  };

  void close();

  int ranks_;
  int reported_ = 0;
  std::uint64_t round_ = 0;
  std::array<std::array<Errors, component_count>, depths> errors_;
  std::array<Errors, depths> followed_;  // of what predict() says; `recent` is not used
  std::array<Errors, depths> closed_;    // the same, of the round before
  std::array<SharedFit, depths> fits_;
  std::array<Mean, depths> means_;
  std::array<double, depths> frozen_{};  // means_ as the iteration began
};

}  // namespace patallreduce::prediction
