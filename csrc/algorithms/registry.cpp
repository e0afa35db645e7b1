// Adding an algorithm: its file, a declaration in algorithms.h, one entry here.
#include "algorithms/registry.h"

#include <algorithm>

#include "algorithms/algorithms.h"
#include "algorithms/powers.h"
#include "errors.h"

namespace patallreduce::algorithms {

namespace {

#define THESIS "Pjesivac-Grbovic, PhD thesis, Tennessee (2007), section 4.1.2, "
constexpr char thesis_all_reduce[] = THESIS "allreduce";
constexpr char thesis_reduce[] = THESIS "reduce";
constexpr char thesis_reduce_scatter[] = THESIS "reduce_scatter";
constexpr char thesis_broadcast[] = THESIS "broadcast";
constexpr char thesis_all_gather[] = THESIS "allgather";
constexpr char thesis_barrier[] = THESIS "barrier";
#undef THESIS
constexpr char thakur[] = "Thakur, Rabenseifner, Gropp, IJHPCA 19 (2005), 49-66";
constexpr char thakur_4_1[] = "Thakur, Rabenseifner, Gropp, IJHPCA 19 (2005), 49-66, section 4.1";
constexpr char thakur_4_3[] = "Thakur, Rabenseifner, Gropp, IJHPCA 19 (2005), 49-66, section 4.3";
constexpr char rabenseifner_2004[] = "Rabenseifner, ICCS 2004, LNCS 3036, 1-9";

// What not every algorithm has.
Algorithm usual(Algorithm algorithm) {
  algorithm.usual = true;
  return algorithm;
}

Algorithm of_the_tree(Algorithm algorithm) {
  algorithm.tree = true;
  return algorithm;
}

Algorithm by_node(Algorithm algorithm) {
  algorithm.by_node = true;
  return algorithm;
}

Algorithm by_port(Algorithm algorithm) {
  algorithm.by_port = true;
  return algorithm;
}

Algorithm sending(Algorithm algorithm, Sends sends) {
  algorithm.sends = sends;
  return algorithm;
}

Algorithm by_rounds(Algorithm algorithm, Rounds rounds) {
  algorithm.rounds = rounds;
  return algorithm;
}

Algorithm priced(Algorithm algorithm, Pricing pricing) {
  algorithm.pricing = pricing;
  return algorithm;
}

Algorithm timed(Algorithm algorithm, Times (*times)(const Timed&)) {
  algorithm.times = times;
  return algorithm;
}

Algorithm all_at_once(Algorithm algorithm, std::vector<Steps> (*generate_all)(const Problem&)) {
  algorithm.generate_all = generate_all;
  return algorithm;
}

int one_part(int) { return 1; }
int part_per_rank(int ranks) { return ranks; }

}  // namespace

const std::vector<Algorithm>& algorithms() {
  static const std::vector<Algorithm> all{
      by_rounds(priced(sending(by_node(usual({"ring", "all_reduce", thakur, Uses::nothing, ring,
                                              ring_segments})),
                               Sends::to_one),
                       {part_per_rank, estimate_ring}),
                {ring_rounds, append_ring_round}),
      priced(by_node({"slt", "all_reduce",
                      "Proficz, J. Supercomput. 74 (2018), arXiv:1804.05349, section 4.1",
                      Uses::order, slt, slt_segments}),
             {one_part, estimate_slt}),
      priced({"slt_dynamic", "all_reduce",
              "Proficz, J. Supercomput. 74 (2018), arXiv:1804.05349, section 4.1; the order is "
              "found while it runs",
              Uses::real_order, slt_dynamic, slt_segments},
             {one_part, estimate_slt}),
      timed(priced(by_node({"prr", "all_reduce",
                            "Proficz, J. Supercomput. 74 (2018), arXiv:1804.05349, section 4.2",
                            Uses::times, prr, ring_segments}),
                   {part_per_rank, nullptr}),
            part_time),
      priced({"recursive_doubling", "all_reduce", thakur, Uses::nothing, recursive_doubling,
              whole_segments},
             {one_part, estimate_doubling}),
      priced({"rabenseifner", "all_reduce", rabenseifner_2004, Uses::nothing, rabenseifner,
              halving_segments},
             {power_of_two_within, estimate_halving}),
      timed(
          priced(sending(by_node(by_port(
                             {"direct_exchange", "all_reduce",
                              "Chan, Heimlich, Purkayastha, van de Geijn, Concurrency Computat. 19 "
                              "(2007), section 4; shares by arrival and bandwidth: ours",
                              Uses::times, direct_exchange, direct_exchange_segments})),
                         Sends::to_all_at_once),
                 {part_per_rank, nullptr, flow_direct_exchange}),
          part_time_of_full_ports),
      of_the_tree(by_node({"reproducible", "all_reduce",
                           "Stelz, Karlsruhe Institute of Technology (2022), eq. 2.1-2.3: the "
                           "tree; holders: ours",
                           Uses::nothing, reproducible, reproducible_segments})),
      of_the_tree({"binomial_all_reduce", "all_reduce", thesis_all_reduce, Uses::nothing,
                   binomial_all_reduce, whole_segments}),
      {"two_tree", "all_reduce", "Sanders, Speck, Traeff, Parallel Computing 35 (2009), 581-594",
       Uses::nothing, two_tree, two_tree_segments},
      {"radix_k", "all_reduce",
       "Peterka, Goodell, Ross, Shen, Thakur, SC 2009; Marendic et al., J. Supercomput. 72 (2016), "
       "section 5.5.4",
       Uses::nothing, radix_k, radix_segments},
      all_at_once(
          timed({"clairvoyant", "all_reduce",
                 "what Proficz, Ocetkiewicz, J. Supercomput. (2020) leave to future work; "
                 "the hubs: ours",
                 Uses::times, clairvoyant_all_reduce_steps, clairvoyant_all_reduce_segments},
                round_times),
          clairvoyant_all_reduce),

      {"flat_reduce", "reduce", thesis_reduce, Uses::nothing, flat_reduce, whole_segments},
      {"chain_reduce", "reduce", thesis_reduce, Uses::nothing, chain_reduce, chain_segments},
      {"k_chain_reduce", "reduce", thesis_reduce, Uses::nothing, k_chain_reduce, k_chain_segments},
      {"binomial_reduce", "reduce", thesis_reduce, Uses::nothing, binomial_reduce, whole_segments},
      {"binary_reduce", "reduce", thesis_reduce, Uses::nothing, binary_reduce, binary_segments},
      {"in_order_binary_reduce", "reduce", thesis_reduce, Uses::nothing, in_order_binary_reduce,
       binary_segments},
      {"parallel_ring_reduce", "reduce",
       "Marendic et al., J. Supercomput. 72 (2016), 1973-2013, section 5.5.2", Uses::nothing,
       parallel_ring_reduce, ring_segments},
      {"rabenseifner_reduce", "reduce", rabenseifner_2004, Uses::nothing, rabenseifner_reduce,
       halving_segments},
      {"radix_k_reduce", "reduce",
       "Marendic et al., J. Supercomput. 72 (2016), 1973-2013, section 5.5.4", Uses::nothing,
       radix_k_reduce, radix_segments},
      timed({"local_redirect_reduce", "reduce",
             "Marendic et al., J. Supercomput. 72 (2016), 1973-2013, section 2.3; Euro-Par 2012",
             Uses::times, local_redirect_reduce, whole_segments},
            part_time),

      usual({"ring_reduce_scatter", "reduce_scatter", thesis_reduce_scatter, Uses::nothing,
             ring_reduce_scatter, ring_segments}),
      {"recursive_halving_reduce_scatter", "reduce_scatter", thesis_reduce_scatter, Uses::nothing,
       recursive_halving_reduce_scatter, ring_segments},

      {"flat_broadcast", "broadcast", thesis_broadcast, Uses::nothing, flat_broadcast,
       whole_segments},
      {"chain_broadcast", "broadcast", thesis_broadcast, Uses::nothing, chain_broadcast,
       chain_segments},
      usual({"binomial_broadcast", "broadcast", thesis_broadcast, Uses::nothing, binomial_broadcast,
             whole_segments}),
      {"binary_broadcast", "broadcast", thesis_broadcast, Uses::nothing, binary_broadcast,
       binary_segments},
      {"split_binary_broadcast", "broadcast", thesis_broadcast, Uses::nothing,
       split_binary_broadcast, binary_segments},

      {"pairwise_all_gather", "all_gather", thakur_4_3, Uses::nothing, pairwise_all_gather,
       ring_segments},
      usual({"ring_all_gather", "all_gather", thesis_all_gather, Uses::nothing, ring_all_gather,
             ring_segments}),
      {"recursive_doubling_all_gather", "all_gather", thesis_all_gather, Uses::nothing,
       recursive_doubling_all_gather, ring_segments},
      {"bruck_all_gather", "all_gather",
       "Bruck, Ho, Kipnis, Upfal, Weathersby, IEEE TPDS 8 (1997), 1143-1156", Uses::nothing,
       bruck_all_gather, ring_segments},
      {"neighbour_exchange_all_gather", "all_gather", "Chen, Zhang, Zhang, Yuan, HPC Asia 2005",
       Uses::nothing, neighbour_exchange_all_gather, ring_segments},

      {"flat_barrier", "barrier", thesis_barrier, Uses::nothing, flat_barrier, ring_segments},
      {"double_ring_barrier", "barrier", thesis_barrier, Uses::nothing, double_ring_barrier,
       ring_segments},
      {"recursive_doubling_barrier", "barrier", thesis_barrier, Uses::nothing,
       recursive_doubling_barrier, ring_segments},
      usual({"dissemination_barrier", "barrier", thesis_barrier, Uses::nothing,
             dissemination_barrier, ring_segments}),

      usual({"pairwise_all_to_all", "all_to_all", thakur_4_3, Uses::nothing, pairwise_all_to_all,
             ring_segments}),
      by_node(usual({"shift", "shift", thakur_4_1, Uses::nothing, shift, whole_segments})),
      by_node({"long_shift", "shift", thakur_4_1, Uses::nothing, long_shift, whole_segments}),
      by_node({"neighbours", "shift", thakur_4_1, Uses::order, neighbours, whole_segments}),

      all_at_once(usual(timed({"clairvoyant", "reduce",
                               "Marendic et al., J. Supercomput. 72 (2016), 1973-2013; on segment "
                               "trees: Proficz, Ocetkiewicz, J. Supercomput. (2020)",
                               Uses::times, clairvoyant_steps, clairvoyant_segments},
                              clairvoyant_times)),
                  clairvoyant),
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
    if (collective.empty() || collective == algorithm.collective)
      known += (known.empty() ? "" : ", ") + std::string(algorithm.name);
  const std::string what = collective.empty() ? "" : concat(" for ", collective);
  throw ScheduleError(concat("unknown algorithm '", name, "'", what, "; known: ", known));
}

const Algorithm& usual_algorithm(const std::string& collective) {
  for (const Algorithm& algorithm : algorithms())
    if (algorithm.usual && collective == algorithm.collective) return algorithm;
  throw ScheduleError(concat("no algorithm for collective '", collective, "'"));
}

const std::vector<const Algorithm*>& candidates(bool by_node) {
  const auto find = [](bool all) {
    std::vector<const Algorithm*> chosen;
    for (const Algorithm& algorithm : algorithms())
      if (algorithm.pricing.parts && (all || algorithm.by_node)) chosen.push_back(&algorithm);
    std::stable_sort(chosen.begin(), chosen.end(),
                     [](const Algorithm* a, const Algorithm* b) { return a->uses < b->uses; });
    return chosen;
  };
  static const std::vector<const Algorithm*> all = find(true), of_nodes = find(false);
  return by_node ? of_nodes : all;
}

int segments_for(const Algorithm& algorithm, int ranks, const Bucket& bucket, const Link& link) {
  if (ranks == 1 || bucket.elements == 0) return 1;
  const std::int64_t wanted = algorithm.segments(ranks, bucket, link);
  const std::uint64_t most = std::min<std::uint64_t>(bucket.elements, most_segments);
  return int(std::clamp<std::int64_t>(wanted, 1, std::int64_t(most)));
}

Times times_of(const Algorithm& algorithm, const Timed& timed) {
  return algorithm.times ? algorithm.times(timed) : Times{};
}

Steps generate_steps(const Algorithm& algorithm, const Problem& problem, int rank) {
  check(problem);
  PATR_CHECK(rank >= 0 && rank < problem.ranks, ScheduleError, "expected a rank in 0..",
             problem.ranks - 1, ", got rank = ", rank);
  return algorithm.generate(problem, rank);
}

Schedule generate(const Algorithm& algorithm, const Problem& problem) {
  check(problem);
  Schedule schedule{algorithm.name, algorithm.collective, problem, {}, algorithm.tree};
  if (algorithm.generate_all) {
    schedule.steps = algorithm.generate_all(problem);
    return schedule;
  }
  schedule.steps.reserve(problem.ranks);
  for (int rank = 0; rank < problem.ranks; ++rank) {
    schedule.steps.push_back(algorithm.generate(problem, rank));
  }
  return schedule;
}

}  // namespace patallreduce::algorithms
