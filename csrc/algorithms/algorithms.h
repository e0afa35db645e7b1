// One rank's steps of each algorithm; the files of the same names explain them.
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

// Round by round, for algorithms/streamed.cpp: all rounds of a rank in order are its steps.
int ring_rounds(const Problem& problem);
void append_ring_round(const Problem& problem, int rank, int round, Steps& steps);

}  // namespace patallreduce
