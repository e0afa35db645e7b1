#include "pricing/account.h"

#include <algorithm>
#include <numeric>

#include "errors.h"

namespace patallreduce::pricing {

double Outcome::average_elapsed_s(const std::vector<double>& arrivals_s) const {
  double elapsed_s = std::accumulate(finish_s.begin(), finish_s.end(), 0.0);
  elapsed_s -= std::accumulate(arrivals_s.begin(), arrivals_s.end(), 0.0);
  return elapsed_s / static_cast<double>(finish_s.size());
}

double Outcome::after_last_arrival_s(const std::vector<double>& arrivals_s) const {
  const double finish = *std::max_element(finish_s.begin(), finish_s.end());
  if (arrivals_s.empty()) return finish;
  return finish - *std::max_element(arrivals_s.begin(), arrivals_s.end());
}

void check_arrivals(const std::vector<double>& arrivals_s, int ranks) {
  PATR_CHECK(arrivals_s.empty() || arrivals_s.size() == std::size_t(ranks), ScheduleError,
             "expected one arrival per rank (", ranks, "), got ", arrivals_s.size(), " arrivals");
  for (std::size_t rank = 0; rank < arrivals_s.size(); ++rank) {
    PATR_CHECK(std::isfinite(arrivals_s[rank]), ScheduleError, "expected a finite arrival, got ",
               arrivals_s[rank], " s for rank ", rank);
  }
}

RunClock::RunClock(const std::vector<double>& arrivals_s) : zero_s(0), arrivals_s(arrivals_s) {
  if (arrivals_s.empty()) return;
  zero_s = *std::min_element(arrivals_s.begin(), arrivals_s.end());
  for (double& arrival_s : this->arrivals_s) arrival_s -= zero_s;
}

void RunClock::put_back(Account& account) const {
  for (double& finish_s : account.outcome.finish_s) finish_s += zero_s;
  for (PathStep& step : account.critical_path) step.done_s += zero_s;
  for (PortUse& use : account.outcome.uses) {
    use.begin_s += zero_s;
    use.end_s += zero_s;
  }
}

}  // namespace patallreduce::pricing
