// One rank's steps of each algorithm, or all ranks'; the files of the same names explain them.
// `problem` has been checked and `rank` is in range.
#pragma once

#include "schedule/schedule.h"

namespace patallreduce {

Steps ring(const Problem& problem, int rank);
Steps slt(const Problem& problem, int rank);
Steps slt_dynamic(const Problem& problem, int rank);
Steps prr(const Problem& problem, int rank);
Steps recursive_doubling(const Problem& problem, int rank);
Steps rabenseifner(const Problem& problem, int rank);
Steps reproducible(const Problem& problem, int rank);
Steps pairwise_all_gather(const Problem& problem, int rank);
Steps pairwise_all_to_all(const Problem& problem, int rank);
Steps clairvoyant_steps(const Problem& problem, int rank);
std::vector<Steps> clairvoyant(const Problem& problem);

}  // namespace patallreduce
