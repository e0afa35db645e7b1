// How a communicator ends: ranks tell each other what went wrong and how far they are, and all take
// the same error from it.
//
// Ranks notice a failure at different moments, and not the same one: who was killed is missed by
// one rank in collective 5 and by another in collective 6. So a rank that notices one tells it,
// stops moving data, and waits until all others that can have told theirs; of those all take the
// one that is most likely the cause. Who has heard everybody tells what that makes, and a rank that
// was held up meanwhile takes that. Only a rank that fails in these moments can leave others with
// another error.
#pragma once

#include <optional>
#include <vector>

#include "executor/control.h"
#include "executor/failure.h"

namespace patallreduce::executor {

class Ending {
 public:
  Ending(int ranks, int rank) : rank_(rank), told_(ranks), silent_(ranks, 0) {}

  bool begun() const { return told_[rank_].has_value(); }
  // What ended it here. Others have until `until_s` to tell theirs.
  void begin(const Failure& failure, double until_s);
  // What another rank told.
  void hear(int from, const Abort& told);
  // That rank will tell nothing.
  void note_silent(int rank) { silent_[rank] = 1; }

  // The error of all ranks, once it is known.
  std::optional<Failure> decided(double now_s) const;

 private:
  Failure cause() const;

  const int rank_;
  std::vector<std::optional<Failure>> told_;  // by rank
  std::vector<char> silent_;                  // by rank
  std::optional<Failure> decided_;            // by another rank, which heard all
  double until_s_ = 0;
};

}  // namespace patallreduce::executor
