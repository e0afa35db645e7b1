#include "monitor/barriers.h"

#include <cstddef>
#include <numeric>

namespace patallreduce::monitor {

namespace {

constexpr double newest_share = 0.3;  // of what is usual
constexpr double kept = 0.98;         // of errors, from one iteration to the next

double mean(const std::vector<double>& values) {
  return std::accumulate(values.begin(), values.end(), 0.0) / static_cast<double>(values.size());
}

// Adds the square of its error, if anything was guessed.
void judge(prediction::Smoothed& usual_s, double came_s, double& squares) {
  const double off_s = came_s - usual_s.mean();
  if (usual_s.count() > 0) squares += off_s * off_s;
  usual_s.add(came_s);
}

}  // namespace

Barriers::Barriers(int ranks)
    : usual_(std::size_t(ranks),
             {prediction::Smoothed(newest_share), prediction::Smoothed(newest_share)}) {}

void Barriers::add(const std::vector<double>& free_s, const std::vector<double>& came_s,
                   double noise_s) {
  const double mean_free_s = mean(free_s), mean_came_s = mean(came_s);
  const double noise = static_cast<double>(usual_.size()) * noise_s * noise_s;
  alone_ = kept * alone_ + noise;
  waiting_ = kept * waiting_ + noise;
  for (std::size_t rank = 0; rank < usual_.size(); ++rank) {
    const double waiting_s = came_s[rank] - mean_came_s;
    judge(usual_[rank].alone_s, waiting_s - (free_s[rank] - mean_free_s), alone_);
    judge(usual_[rank].waiting_s, waiting_s, waiting_);
  }
}

}  // namespace patallreduce::monitor
