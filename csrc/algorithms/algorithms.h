// One rank's steps of each algorithm, or all ranks'; the files of the same names explain them.
// `problem` has been checked and `rank` is in range.
#pragma once

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
Steps clairvoyant_steps(const Problem& problem, int rank);
std::vector<Steps> clairvoyant(const Problem& problem);
Steps clairvoyant_all_reduce_steps(const Problem& problem, int rank);
std::vector<Steps> clairvoyant_all_reduce(const Problem& problem);

// Round by round, for algorithms/generated.cpp: all rounds of a rank in order are its steps.
int ring_rounds(const Problem& problem);
void append_ring_round(const Problem& problem, int rank, int round, Steps& steps);

}  // namespace patallreduce::algorithms
