// Nanoseconds of one decision, over drawn numbers of ranks and bytes: of `decide` in decide.h.
#include <chrono>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <random>
#include <utility>
#include <vector>

#include "decide.h"

int main() {
  std::mt19937_64 draw(7);
  std::uniform_int_distribution<std::int64_t> ranks(2, 64);
  std::uniform_real_distribution<double> power(0, 24);
  std::vector<std::pair<std::int64_t, std::int64_t>> points(
      1 << 20);  // more than a branch predictor learns by heart
  for (auto& [p, m] : points) p = ranks(draw), m = std::int64_t(std::exp2(power(draw)));
  constexpr int passes = 8;
  long long sum = 0;
  const auto start = std::chrono::steady_clock::now();
  for (int pass = 0; pass < passes; ++pass)
    for (const auto& [p, m] : points) sum += decide(p + (sum & 1), m);
  const std::chrono::duration<double, std::nano> took = std::chrono::steady_clock::now() - start;
  std::printf("%.2f %lld\n", took.count() / (double(passes) * double(points.size())), sum);
}
