// Who is at which place of a chain that grows as ranks arrive. One rank keeps it for all.
//
// A rank must know its own place and who is before it to begin, and who comes after it to pass its
// sums on. The last rank is known as soon as all others have arrived: the sums go to it without
// waiting for it, and the first rank learns from whom the results will come. An arrival costs two
// messages of some tens of bytes, the last but one five.
//
// What the keeper tells its successor would wait behind the data that it sends there: so it learns
// who that is only when it has told the successor whom to pass the sums on to, who could not have
// been served before either (8 ranks, 200 Mbit/s, rank 0 first: 2.6 instead of 1.75 times M*beta).
#pragma once

#include <cstdint>
#include <map>
#include <utility>
#include <vector>

namespace patallreduce::executor {

struct Place {
  std::int32_t place;
  std::int32_t rank;  // that is there
};

class Places {
 public:
  static constexpr std::int32_t keeper = 0;

  explicit Places(int ranks) : ranks_(ranks) {}

  // `rank` has arrived at collective `seq`. Returns what that tells, and whom: rank, places.
  std::vector<std::pair<int, std::vector<Place>>> arrived(std::uint64_t seq, int rank);

 private:
  int ranks_;
  std::map<std::uint64_t, std::vector<std::int32_t>> chains_;  // by seq: the ranks so far
};

}  // namespace patallreduce::executor
