#include "executor/ending.h"

#include <algorithm>

namespace patallreduce::executor {

namespace {

// Which of two failures is the cause: a rank that errs closes its connections, and who loses a rank
// makes others wait.
int precedence(Kind kind) {
  switch (kind) {
    case Kind::mismatch:
      return 0;
    case Kind::transport:
      return 1;
    case Kind::lost:
      return 2;
    case Kind::timeout:
      break;
  }
  return 3;
}

}  // namespace

void Ending::begin(const Failure& failure, double until_s) {
  told_[rank_] = failure;
  until_s_ = until_s;
}

void Ending::hear(int from, const Abort& told) {
  const Failure failure{Kind{told.kind}, told.rank, told.what, told.completed};
  if (told.decided && !decided_) decided_ = failure;
  told_[from] = failure;
}

std::optional<Failure> Ending::decided(double now_s) const {
  if (decided_ || !begun()) return decided_;
  for (std::size_t rank = 0; rank < told_.size(); ++rank)
    if (!told_[rank] && !silent_[rank] && now_s < until_s_) return std::nullopt;
  return cause();
}

Failure Ending::cause() const {
  std::optional<Failure> cause;
  std::uint64_t completed = told_[rank_]->completed;
  for (const auto& told : told_) {
    if (!told) continue;
    completed = std::min(completed, told->completed);
    if (!cause || precedence(told->kind) < precedence(cause->kind)) cause = told;
  }
  cause->completed = completed;
  return *cause;
}

}  // namespace patallreduce::executor
