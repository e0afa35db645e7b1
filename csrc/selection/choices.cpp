#include "selection/choices.h"

#include <algorithm>
#include <utility>

namespace patallreduce::selection {

namespace {

constexpr std::size_t most_choices = 512, most_usual = 64;
constexpr int usually = 3;

double apart_s(const IterationForecast& forecast) {
  return largest(forecast.arrivals_s.back()) - smallest(forecast.arrivals_s.back());
}

std::vector<std::uint64_t> bytes(const IterationForecast& forecast) {
  std::vector<std::uint64_t> bytes;
  for (const Bucket& bucket : forecast.buckets) bytes.push_back(bucket.bytes);
  return bytes;
}

}  // namespace

const Chosen* Choices::known(const std::vector<double>& in_quanta) const {
  const auto found = known_.find(in_quanta);
  return found == known_.end() ? nullptr : &found->second;
}

const Chosen* Choices::usual(const IterationForecast& forecast, double slack_s, bool agreed) const {
  const auto found = usual_.find(bytes(forecast));
  if (found == usual_.end()) return nullptr;
  const Usual& usual = found->second;
  const double apart_s = selection::apart_s(forecast);
  const bool as_before =
      apart_s >= usual.least_apart_s - slack_s && apart_s <= usual.most_apart_s + slack_s;
  return usual.times >= (agreed ? usually : 1) && as_before ? &usual.chosen : nullptr;
}

const Chosen* Choices::note(std::vector<double> in_quanta, const IterationForecast& forecast,
                            const Chosen& chosen) {
  if (usual_.size() == most_usual) usual_.clear();
  Usual& usual = usual_[bytes(forecast)];
  const double apart_s = selection::apart_s(forecast);
  const bool again = usual.times > 0 && chosen.algorithm == usual.chosen.algorithm;
  usual = {chosen, again ? usual.times + 1 : 1,
           again ? std::min(usual.least_apart_s, apart_s) : apart_s,
           again ? std::max(usual.most_apart_s, apart_s) : apart_s};
  if (known_.size() == most_choices) known_.clear();
  return &known_.emplace(std::move(in_quanta), chosen).first->second;
}

void Choices::forget() {
  known_.clear();
  usual_.clear();
}

}  // namespace patallreduce::selection
