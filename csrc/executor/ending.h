// How a communicator ends: ranks tell each other what went wrong and how far they are, and all take
// the same error from it.
//
// Ranks notice a failure at different moments, and not the same one: who was killed is missed by
// one rank in collective 5 and by another in collective 6. So a rank that notices one tells it,
// stops moving data, and waits until all others that can have told theirs. Of those it takes the
// one that is most likely the cause, tells that as its verdict, and waits for the verdicts of the
// others. The verdict of who heard the fewest ranks counts: it may already have left. So a rank
// that was held up meanwhile takes what the others took without it. Only a rank that fails in these
// moments can leave others with another error.
//
//   rank 0   notices -> tells      hears 1, 2 -> verdict      hears theirs -> ends
//   rank 1      hears -> tells     hears 0, 2 -> verdict      hears theirs -> ends
//   rank 2   notices -> tells      hears 0, 1 -> verdict      hears theirs -> ends
#pragma once

#include <optional>
#include <vector>

#include "executor/control.h"
#include "executor/failure.h"

namespace patallreduce::executor {

struct Verdict {
  Failure failure;
  std::uint32_t heard = 0;  // ranks, its own included
};

class Ending {
 public:
  Ending(int ranks, int rank) : rank_(rank), told_(ranks), verdicts_(ranks), silent_(ranks, 0) {}

  bool begun() const { return told_[rank_].has_value(); }
  // What ended it here. Others have until then to tell theirs, and as long again for their
  // verdicts.
  void begin(Failure failure, double now_s);
  const Failure& begun_by() const { return *told_[rank_]; }
  // What another rank told.
  void hear(int from, const Abort& told);
  // That rank will tell nothing.
  void note_silent(int rank) { silent_[rank] = 1; }

  // This rank's verdict, to be told to the others; none: not yet, or told.
  std::optional<Verdict> judge(double now_s) const;
  void note_told(Verdict verdict, double now_s);
  // The error of all ranks, once it is known.
  std::optional<Failure> agreed(double now_s) const;

 private:
  template <typename Heard>
  bool heard_all(const Heard& heard) const;

  const int rank_;
  std::vector<std::optional<Failure>> told_;      // by rank
  std::vector<std::optional<Verdict>> verdicts_;  // by rank
  std::vector<char> silent_;                      // by rank
  double until_s_ = 0;
};

}  // namespace patallreduce::executor
