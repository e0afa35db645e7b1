// Clairvoyant: a reduce to a root, greedily scheduled around the arrivals.
//
// In rounds of one segment's time those who are there (clairvoyant/group.h) receive, one after the
// other, the lowest segment that they still hold from the first who can send it; nobody sends twice
// in a round, nor what it has received in it. The sink, the root once it is there and the earliest
// before, takes any segment, so all of them end at the root.
//
//   4 ranks, 4 segments, equal arrivals; "r:s" is segment s from rank r
//   round     0    1    2    3    4
//   rank 0   1:0  2:0  1:1  2:2  1:3
//   rank 1   0:1  3:1  0:3  3:3
//   rank 2   3:0  0:2  3:2
//   rank 3   2:1  1:2  2:3
//
//   messages   P-1 per segment, and one more each time that a sink takes back what it has sent
//   depth      log2 P + N - 1 rounds for equal arrivals, P and N segments powers of two: the least
//   sum order  as the messages have it: another prediction may change the bits
//   rounds     of Problem::segment_time_s: time to transfer and reduce one segment. With 0 a round
//              takes no time: all that can be done is done before the next arrival
//   source     Marendic, Lemeire, Vucinic, Schelkens, J. Supercomput. 72 (2016), 1973-2013;
//              Proficz, Ocetkiewicz, J. Supercomput. (2020): repairs, segment trees
//
// A rank that comes within the round after the earliest's takes part already (CLV20, Listing 6; its
// Listing 2 takes one that comes exactly at the end, too, but CLV16's Fig. 8 does not).
// Every rank's steps follow from all others': making those of one costs nearly what all cost.
// clairvoyant/bit_rows.cpp finds the messages; published ways to, which make the same steps, are in
// benchmarks/clairvoyant_rivals.
#include <cmath>
#include <utility>

#include "algorithms/algorithms.h"
#include "algorithms/clairvoyant/bit_rows.h"

namespace patallreduce::algorithms {

std::vector<Steps> clairvoyant(const Problem& problem) {
  return clairvoyant_bit_rows(problem).steps;
}

Steps clairvoyant_steps(const Problem& problem, int rank) {
  return std::move(clairvoyant_bit_rows(problem, rank).steps[rank]);
}

// With so many the first segment's log2 P rounds cost as much as the others' latencies (CLV16,
// section 5.2).
std::int64_t clairvoyant_segments(int ranks, const Bucket& bucket, const Link& link) {
  const double sum_s = static_cast<double>(bucket.bytes) / link.reduce_bytes_per_s;
  return pipelined(std::log2(ranks) - 1, transfer_s(bucket, link) + sum_s, bucket, link);
}

// While all are there it does not matter how long a round is.
Times clairvoyant_times(const Timed& timed) {
  return timed.together ? Times{} : Times{round_times(timed).segment_time_s};
}

}  // namespace patallreduce::algorithms
