// Adding an algorithm: its file, a declaration in algorithms.h, one entry here.
#include "algorithms/registry.h"

#include "algorithms/algorithms.h"
#include "errors.h"

namespace patallreduce {

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
      {"pairwise_all_gather", "all_gather",
       "Thakur, Rabenseifner, Gropp, IJHPCA 19 (2005), 49-66, section 4.3", false,
       pairwise_all_gather},
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

const Algorithm* known_algorithm(const std::string& name) {
  for (const Algorithm& algorithm : algorithms())
    if (name == algorithm.name) return &algorithm;
  return nullptr;
}

const Algorithm& find_algorithm(const std::string& name) {
  if (const Algorithm* found = known_algorithm(name)) return *found;
  std::string known;
  for (const Algorithm& algorithm : algorithms())
    known += (known.empty() ? "" : ", ") + std::string(algorithm.name);
  throw ScheduleError(concat("unknown algorithm '", name, "'; known: ", known));
}

Steps generate_steps(const std::string& algorithm, const Problem& problem, int rank) {
  const Algorithm& found = find_algorithm(algorithm);
  check(problem);
  PATR_CHECK(rank >= 0 && rank < problem.ranks, ScheduleError, "expected a rank in 0..",
             problem.ranks - 1, ", got rank = ", rank);
  return found.generate(problem, rank);
}

Schedule generate(const std::string& algorithm, const Problem& problem) {
  const Algorithm& found = find_algorithm(algorithm);
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

}  // namespace patallreduce
