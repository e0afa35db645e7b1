#include "algorithms/generated.h"

#include "algorithms/algorithms.h"
#include "algorithms/registry.h"

namespace patallreduce::algorithms {

using schedule::Problem;
using schedule::Steps;
using schedule::StepSource;

namespace {

struct Rounds {
  Steps (*generate)(const Problem& problem, int rank);  // whose rounds they are
  int (*count)(const Problem& problem);
  void (*append)(const Problem& problem, int rank, int round, Steps& steps);
};

constexpr Rounds known_rounds[] = {
    {ring, ring_rounds, append_ring_round},
};

class ByRounds : public StepSource {
 public:
  ByRounds(const Problem& problem, const Rounds& rounds)
      : StepSource(problem), rounds_(rounds), count_(rounds.count(problem)) {}

  int blocks() const override { return count_; }

  void append(int rank, int block, Steps& steps) const override {
    rounds_.append(problem(), rank, block, steps);
  }

 private:
  const Rounds rounds_;
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

std::unique_ptr<StepSource> generated(const std::string& algorithm, const Problem& problem,
                                      const std::string& collective) {
  const Algorithm& found = find_algorithm(algorithm, collective);
  check(problem);
  for (const Rounds& rounds : known_rounds) {
    if (rounds.generate == found.generate) return std::make_unique<ByRounds>(problem, rounds);
  }
  return std::make_unique<ByRank>(problem, found);
}

}  // namespace patallreduce::algorithms
