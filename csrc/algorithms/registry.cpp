// Adding an algorithm: its file, a declaration in algorithms.h, one entry here.
#include "algorithms/registry.h"

#include "algorithms/algorithms.h"
#include "errors.h"

namespace patallreduce::algorithms {

using schedule::Problem;
using schedule::Schedule;
using schedule::Steps;

namespace {

#define THESIS "Pjesivac-Grbovic, PhD thesis, Tennessee (2007), section 4.1.2, "
constexpr char thesis_all_reduce[] = THESIS "allreduce";
constexpr char thesis_reduce[] = THESIS "reduce";
constexpr char thesis_reduce_scatter[] = THESIS "reduce_scatter";
constexpr char thesis_broadcast[] = THESIS "broadcast";
constexpr char thesis_all_gather[] = THESIS "allgather";
constexpr char thesis_barrier[] = THESIS "barrier";
#undef THESIS

}  // namespace

const std::vector<Algorithm>& algorithms() {
  static const std::vector<Algorithm> all{
      {"ring", "all_reduce", "Thakur, Rabenseifner, Gropp, IJHPCA 19 (2005), 49-66", false, ring},
      {"slt", "all_reduce", "Proficz, J. Supercomput. 74 (2018), arXiv:1804.05349, section 4.1",
       true, slt},
      {"slt_dynamic", "all_reduce",
       "Proficz, J. Supercomput. 74 (2018), arXiv:1804.05349, section 4.1; the order is found "
       "while "
       "it runs",
       true, slt_dynamic, true},
      {"prr", "all_reduce", "Proficz, J. Supercomput. 74 (2018), arXiv:1804.05349, section 4.2",
       true, prr},
      {"recursive_doubling", "all_reduce", "Thakur, Rabenseifner, Gropp, IJHPCA 19 (2005), 49-66",
       false, recursive_doubling},
      {"rabenseifner", "all_reduce", "Rabenseifner, ICCS 2004, LNCS 3036, 1-9", false,
       rabenseifner},
      {"reproducible", "all_reduce",
       "Stelz, Karlsruhe Institute of Technology (2022), eq. 2.1-2.3: the tree; holders: ours",
       false, reproducible, false, true},
      {"binomial_all_reduce", "all_reduce", thesis_all_reduce, false, binomial_all_reduce, false,
       true},
      {"two_tree", "all_reduce", "Sanders, Speck, Traeff, Parallel Computing 35 (2009), 581-594",
       false, two_tree},
      {"radix_k", "all_reduce",
       "Peterka, Goodell, Ross, Shen, Thakur, SC 2009; Marendic et al., J. Supercomput. 72 (2016), "
       "section 5.5.4",
       false, radix_k},
      {"clairvoyant", "all_reduce",
       "what Proficz, Ocetkiewicz, J. Supercomput. (2020) leave to future work; the hubs: ours",
       true, clairvoyant_all_reduce_steps, false, false, clairvoyant_all_reduce},
      {"flat_reduce", "reduce", thesis_reduce, false, flat_reduce},
      {"chain_reduce", "reduce", thesis_reduce, false, chain_reduce},
      {"k_chain_reduce", "reduce", thesis_reduce, false, k_chain_reduce},
      {"binomial_reduce", "reduce", thesis_reduce, false, binomial_reduce},
      {"binary_reduce", "reduce", thesis_reduce, false, binary_reduce},
      {"in_order_binary_reduce", "reduce", thesis_reduce, false, in_order_binary_reduce},
      {"parallel_ring_reduce", "reduce",
       "Marendic et al., J. Supercomput. 72 (2016), 1973-2013, section 5.5.2", false,
       parallel_ring_reduce},
      {"rabenseifner_reduce", "reduce", "Rabenseifner, ICCS 2004, LNCS 3036, 1-9", false,
       rabenseifner_reduce},
      {"radix_k_reduce", "reduce",
       "Marendic et al., J. Supercomput. 72 (2016), 1973-2013, section 5.5.4", false,
       radix_k_reduce},
      {"local_redirect_reduce", "reduce",
       "Marendic et al., J. Supercomput. 72 (2016), 1973-2013, section 2.3; Euro-Par 2012", true,
       local_redirect_reduce},
      {"ring_reduce_scatter", "reduce_scatter", thesis_reduce_scatter, false, ring_reduce_scatter},
      {"recursive_halving_reduce_scatter", "reduce_scatter", thesis_reduce_scatter, false,
       recursive_halving_reduce_scatter},
      {"flat_broadcast", "broadcast", thesis_broadcast, false, flat_broadcast},
      {"chain_broadcast", "broadcast", thesis_broadcast, false, chain_broadcast},
      {"binomial_broadcast", "broadcast", thesis_broadcast, false, binomial_broadcast},
      {"binary_broadcast", "broadcast", thesis_broadcast, false, binary_broadcast},
      {"split_binary_broadcast", "broadcast", thesis_broadcast, false, split_binary_broadcast},
      {"pairwise_all_gather", "all_gather",
       "Thakur, Rabenseifner, Gropp, IJHPCA 19 (2005), 49-66, section 4.3", false,
       pairwise_all_gather},
      {"ring_all_gather", "all_gather", thesis_all_gather, false, ring_all_gather},
      {"recursive_doubling_all_gather", "all_gather", thesis_all_gather, false,
       recursive_doubling_all_gather},
      {"bruck_all_gather", "all_gather",
       "Bruck, Ho, Kipnis, Upfal, Weathersby, IEEE TPDS 8 (1997), 1143-1156", false,
       bruck_all_gather},
      {"neighbour_exchange_all_gather", "all_gather", "Chen, Zhang, Zhang, Yuan, HPC Asia 2005",
       false, neighbour_exchange_all_gather},
      {"flat_barrier", "barrier", thesis_barrier, false, flat_barrier},
      {"double_ring_barrier", "barrier", thesis_barrier, false, double_ring_barrier},
      {"recursive_doubling_barrier", "barrier", thesis_barrier, false, recursive_doubling_barrier},
      {"dissemination_barrier", "barrier", thesis_barrier, false, dissemination_barrier},
      {"pairwise_all_to_all", "all_to_all",
       "Thakur, Rabenseifner, Gropp, IJHPCA 19 (2005), 49-66, section 4.3", false,
       pairwise_all_to_all},
      {"clairvoyant", "reduce",
       "Marendic et al., J. Supercomput. 72 (2016), 1973-2013; on segment trees: Proficz, "
       "Ocetkiewicz, J. Supercomput. (2020)",
       true, clairvoyant_steps, false, false, clairvoyant},
  };
  return all;
}

const Algorithm* known_algorithm(const std::string& name, const std::string& collective) {
  for (const Algorithm& algorithm : algorithms())
    if (name == algorithm.name && (collective.empty() || collective == algorithm.collective))
      return &algorithm;
  return nullptr;
}

const Algorithm& find_algorithm(const std::string& name, const std::string& collective) {
  if (const Algorithm* found = known_algorithm(name, collective)) return *found;
  std::string known;
  for (const Algorithm& algorithm : algorithms())
    known += (known.empty() ? "" : ", ") + std::string(algorithm.name);
  throw ScheduleError(concat("unknown algorithm '", name, "'; known: ", known));
}

Steps generate_steps(const std::string& algorithm, const Problem& problem, int rank,
                     const std::string& collective) {
  const Algorithm& found = find_algorithm(algorithm, collective);
  check(problem);
  PATR_CHECK(rank >= 0 && rank < problem.ranks, ScheduleError, "expected a rank in 0..",
             problem.ranks - 1, ", got rank = ", rank);
  return found.generate(problem, rank);
}

Schedule generate(const std::string& algorithm, const Problem& problem,
                  const std::string& collective) {
  const Algorithm& found = find_algorithm(algorithm, collective);
  check(problem);
  Schedule schedule{found.name, found.collective, problem, {}, found.tree};
  if (found.generate_all) {
    schedule.steps = found.generate_all(problem);
    return schedule;
  }
  schedule.steps.reserve(problem.ranks);
  for (int rank = 0; rank < problem.ranks; ++rank) {
    schedule.steps.push_back(found.generate(problem, rank));
  }
  return schedule;
}

}  // namespace patallreduce::algorithms
