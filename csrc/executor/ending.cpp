#include "executor/ending.h"

#include <algorithm>
#include <utility>

namespace patallreduce::executor {

namespace {

constexpr double longest_s = 0.5;  // for others to tell

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

void Ending::begin(Failure failure, double now_s) {
  told_[rank_] = std::move(failure);
  until_s_ = now_s + longest_s;
}

void Ending::hear(int from, const Abort& told) {
  const Failure failure{Kind{told.kind}, told.rank, told.what, told.completed};
  if (told.heard > 0) verdicts_[from] = Verdict{failure, told.heard};
  if (!told_[from]) told_[from] = failure;
}

template <typename Heard>
bool Ending::heard_all(const Heard& heard) const {
  for (std::size_t rank = 0; rank < heard.size(); ++rank)
    if (!heard[rank] && !silent_[rank]) return false;
  return true;
}

std::optional<Verdict> Ending::judge(double now_s) const {
  if (!begun() || verdicts_[rank_] || (now_s < until_s_ && !heard_all(told_))) return std::nullopt;
  std::optional<Failure> cause;
  std::uint64_t completed = told_[rank_]->completed;
  std::uint32_t heard = 0;
  for (const auto& told : told_) {
    if (!told) continue;
    ++heard;
    completed = std::min(completed, told->completed);
    if (!cause || precedence(told->kind) < precedence(cause->kind)) cause = told;
  }
  cause->completed = completed;
  return Verdict{*cause, heard};
}

void Ending::note_told(Verdict verdict, double now_s) {
  verdicts_[rank_] = std::move(verdict);
  until_s_ = now_s + longest_s;
}

std::optional<Failure> Ending::agreed(double now_s) const {
  if (!begun() || !verdicts_[rank_] || (now_s < until_s_ && !heard_all(verdicts_)))
    return std::nullopt;
  Verdict agreed = *verdicts_[rank_];
  for (auto verdict = verdicts_.rbegin(); verdict != verdicts_.rend(); ++verdict)
    if (*verdict && (*verdict)->heard <= agreed.heard) agreed = **verdict;
  // The others may not have waited for this rank, and it does not have what they have.
  agreed.failure.completed = std::min(agreed.failure.completed, told_[rank_]->completed);
  return agreed.failure;
}

}  // namespace patallreduce::executor
