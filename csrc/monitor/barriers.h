// Whether something acts as a barrier between two iterations, such as a sum of losses. Then whom an
// all-reduce lets go early starts no earlier for that.
//
// Two guesses at when a rank comes to a point of its iteration, such as its start or its last
// arrival, each by how it usually differs from the mean of all: so long after it was let go, as
// where each goes on by itself; or just then, as where all wait for the last. A barrier is seen
// where the second is off by less than half of what the first is. Without a difference that is more
// than noise, none is.
#pragma once

#include <vector>

#include "prediction/smoothed.h"

namespace patallreduce::monitor {

class Barriers {
 public:
  explicit Barriers(int ranks);

  // By rank: when the last iteration let it go, and when it came to that point of this one.
  // noise_s: by so much any guess may be off.
  void add(const std::vector<double>& free_s, const std::vector<double>& came_s, double noise_s);
  bool seen() const { return 4 * waiting_ < alone_; }

 private:
  struct Usual {  // of one rank
    prediction::Smoothed alone_s, waiting_s;
  };

  std::vector<Usual> usual_;
  double alone_ = 0, waiting_ = 0;  // squares of errors, older ones with less weight
};

}  // namespace patallreduce::monitor
