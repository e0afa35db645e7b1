// What was chosen before: for forecasts that may as well be treated alike; and again and again, for
// iterations of the same buckets.
//
// To work out a choice takes up to tens of milliseconds, in which all ranks wait. Where the last
// ones agreed, the next one is most likely the same, for it is made for nearly the same arrivals.
// Where that wait is too long beside the iteration, the last one has to do.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <vector>

#include "algorithms/registry.h"
#include "selection/forecast.h"

namespace patallreduce::selection {

using algorithms::Algorithm;

struct Chosen {
  const Algorithm* algorithm = nullptr;  // none: no plan
  double pace_s = 0, plain_pace_s = 0;
};

// Null: none.
class Choices {
 public:
  // For a forecast that is the same in quanta.
  const Chosen* known(const std::vector<double>& in_quanta) const;
  // That of the last three or more, which agreed, where ranks are as far apart as they were then,
  // but for slack_s; or, without `agreed`, of the last.
  const Chosen* usual(const IterationForecast& forecast, double slack_s, bool agreed) const;
  const Chosen* note(std::vector<double> in_quanta, const IterationForecast& forecast,
                     const Chosen& chosen);
  void forget();

 private:
  struct Usual {
    Chosen chosen;
    int times = 0;                       // in a row
    double least_apart_s, most_apart_s;  // from the first to the last arrival
  };

  std::map<std::vector<double>, Chosen> known_;
  std::map<std::vector<std::uint64_t>, Usual> usual_;  // by the buckets' bytes
};

}  // namespace patallreduce::selection
