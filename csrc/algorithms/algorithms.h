// One rank's steps of each algorithm, or all ranks'; the files of the same names explain them.
// `problem` has been checked and `rank` is in range.
#pragma once

#include <cstdint>
#include <vector>

#include "algorithms/segments.h"
#include "algorithms/times.h"
#include "schedule/schedule.h"

namespace patallreduce::algorithms {

using schedule::Problem;
using schedule::Steps;

Steps ring(const Problem& problem, int rank);
Steps slt(const Problem& problem, int rank);
Steps slt_dynamic(const Problem& problem, int rank);
Steps prr(const Problem& problem, int rank);
Steps recursive_doubling(const Problem& problem, int rank);
Steps rabenseifner(const Problem& problem, int rank);
Steps reproducible(const Problem& problem, int rank);
Steps binomial_all_reduce(const Problem& problem, int rank);
Steps two_tree(const Problem& problem, int rank);
Steps radix_k(const Problem& problem, int rank);
Steps direct_exchange(const Problem& problem, int rank);

Steps flat_reduce(const Problem& problem, int rank);
Steps chain_reduce(const Problem& problem, int rank);
Steps k_chain_reduce(const Problem& problem, int rank);
Steps binomial_reduce(const Problem& problem, int rank);
Steps binary_reduce(const Problem& problem, int rank);
Steps in_order_binary_reduce(const Problem& problem, int rank);
Steps parallel_ring_reduce(const Problem& problem, int rank);
Steps rabenseifner_reduce(const Problem& problem, int rank);
Steps radix_k_reduce(const Problem& problem, int rank);
Steps local_redirect_reduce(const Problem& problem, int rank);

Steps ring_reduce_scatter(const Problem& problem, int rank);
Steps recursive_halving_reduce_scatter(const Problem& problem, int rank);

Steps flat_broadcast(const Problem& problem, int rank);
Steps chain_broadcast(const Problem& problem, int rank);
Steps binomial_broadcast(const Problem& problem, int rank);
Steps binary_broadcast(const Problem& problem, int rank);
Steps split_binary_broadcast(const Problem& problem, int rank);

Steps ring_all_gather(const Problem& problem, int rank);
Steps recursive_doubling_all_gather(const Problem& problem, int rank);
Steps bruck_all_gather(const Problem& problem, int rank);
Steps neighbour_exchange_all_gather(const Problem& problem, int rank);
Steps pairwise_all_gather(const Problem& problem, int rank);

Steps flat_barrier(const Problem& problem, int rank);
Steps double_ring_barrier(const Problem& problem, int rank);
Steps recursive_doubling_barrier(const Problem& problem, int rank);
Steps dissemination_barrier(const Problem& problem, int rank);

Steps pairwise_all_to_all(const Problem& problem, int rank);
constexpr int shift_rounds = 2, long_shift_rounds = 32;
int places_of_shift(int ranks, int rounds = shift_rounds);
std::vector<std::int32_t> first_ranks(const Problem& problem);  // of the nodes, in order
Steps shift(const Problem& problem, int rank);
Steps long_shift(const Problem& problem, int rank);
Steps neighbours(const Problem& problem, int rank);
Steps clairvoyant_steps(const Problem& problem, int rank);
std::vector<Steps> clairvoyant(const Problem& problem);
Steps clairvoyant_all_reduce_steps(const Problem& problem, int rank);
std::vector<Steps> clairvoyant_all_reduce(const Problem& problem);

// Round by round, for algorithms/generated.cpp: all rounds of a rank in order are its steps.
int ring_rounds(const Problem& problem);
void append_ring_round(const Problem& problem, int rank, int round, Steps& steps);

// How many segments suit a message: rules of single algorithms (whose file has it) or families.
// `ranks` is 2 or more. See segments.h.
std::int64_t ring_segments(int ranks, const Bucket& bucket, const Link& link);
std::int64_t slt_segments(int ranks, const Bucket& bucket, const Link& link);
std::int64_t halving_segments(int ranks, const Bucket& bucket, const Link& link);
std::int64_t reproducible_segments(int ranks, const Bucket& bucket, const Link& link);
std::int64_t direct_exchange_segments(int ranks, const Bucket& bucket, const Link& link);
std::int64_t two_tree_segments(int ranks, const Bucket& bucket, const Link& link);
std::int64_t radix_segments(int ranks, const Bucket& bucket, const Link& link);
std::int64_t chain_segments(int ranks, const Bucket& bucket, const Link& link);
std::int64_t k_chain_segments(int ranks, const Bucket& bucket, const Link& link);
std::int64_t binary_segments(int ranks, const Bucket& bucket, const Link& link);
std::int64_t clairvoyant_segments(int ranks, const Bucket& bucket, const Link& link);
std::int64_t clairvoyant_all_reduce_segments(int ranks, const Bucket& bucket, const Link& link);

Times clairvoyant_times(const Timed& timed);

// For registry.h's Pricing.
struct FlowingPorts;
using Finishes = std::vector<double>;  // [rank]
Finishes flow_direct_exchange(const std::vector<double>& expected_s, FlowingPorts& ports,
                              int segments, double message_bytes, const Link& link);
// 2(P - 1) rounds of a part.
Finishes estimate_ring(const std::vector<double>& arrivals_s, int segments, double message_bytes,
                       const Link& link);
// log2 P rounds of the whole message; two more if P is no power of two.
Finishes estimate_doubling(const std::vector<double>& arrivals_s, int segments,
                           double message_bytes, const Link& link);
// Halving, then doubling; each moves (P - 1) / P of the message. Ranks that are no power of two: a
// further exchange for each smaller block.
Finishes estimate_halving(const std::vector<double>& arrivals_s, int segments, double message_bytes,
                          const Link& link);
// The ranks being given in the order of the chain.
Finishes estimate_slt(const std::vector<double>& arrivals_s, int segments, double message_bytes,
                      const Link& link);

}  // namespace patallreduce::algorithms
