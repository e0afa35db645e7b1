#include "algorithms/generated.h"

namespace patallreduce::algorithms {

namespace {

class ByRounds : public StepSource {
 public:
  ByRounds(const Problem& problem, const Rounds& rounds)
      : StepSource(problem), rounds_(rounds), count_(rounds.count(problem)) {}

  int blocks() const override { return count_; }

  void append(int rank, int block, Steps& steps) const override {
    rounds_.append(problem(), rank, block, steps);
  }

 private:
  const Rounds& rounds_;
  const int count_;
};

class ByRank : public StepSource {
 public:
  ByRank(const Problem& problem, const Algorithm& algorithm)
      : StepSource(problem), algorithm_(algorithm) {
    if (algorithm.generate_all) made_ = algorithm.generate_all(problem);
  }

  void append(int rank, int, Steps& steps) const override {
    const Steps all = made_.empty() ? algorithm_.generate(problem(), rank) : made_[rank];
    steps.insert(steps.end(), all.begin(), all.end());
  }

 private:
  const Algorithm& algorithm_;
  std::vector<Steps> made_;  // of all ranks, where one rank's cost nearly as much
};

}  // namespace

std::unique_ptr<StepSource> generated(const Algorithm& algorithm, const Problem& problem) {
  check(problem);
  if (algorithm.rounds.append) return std::make_unique<ByRounds>(problem, algorithm.rounds);
  return std::make_unique<ByRank>(problem, algorithm);
}

}  // namespace patallreduce::algorithms
