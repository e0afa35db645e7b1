// The book of algorithms: their names, and whatever holds for one of them and not for all. Nothing
// outside this folder knows an algorithm by name.
#pragma once

#include <string>
#include <vector>

#include "algorithms/segments.h"
#include "algorithms/times.h"
#include "schedule/schedule.h"

namespace patallreduce::algorithms {

using schedule::Problem;
using schedule::Schedule;
using schedule::Steps;

// What of the arrivals a schedule depends on: of those expected, or (real_order) of those that
// come.
enum class Uses { nothing, order, real_order, times };

// To whom a rank sends where all come together, and so what fills its port. Known of those alone
// from which ports are told (monitor/ports.h).
enum class Sends { otherwise, to_one, to_all_at_once };

// Steps that come in rounds: all rounds of a rank in order are its steps.
struct Rounds {
  int (*count)(const Problem& problem);
  void (*append)(const Problem& problem, int rank, int round, Steps& steps);
};

// By rank: until when its port sends messages of all buckets so far that flow to many at once. Sums
// wait a latency for the values that they are made of; meanwhile it sends what values come next.
struct FlowingPorts {
  std::vector<double> values_until_s, all_until_s;  // if values went first; with their sums
};

// How one is chosen by price.
struct Pricing {
  // Of any number of segments that suits it, a factor.
  int (*parts)(int ranks);
  // When every rank would be done, in closed form (algorithms/estimates.h); `arrivals_s` as the
  // algorithm orders the ranks. Null: there is none.
  std::vector<double> (*estimate)(const std::vector<double>& arrivals_s, int segments,
                                  double message_bytes, const Link& link);
  // When every rank is done: instead of all that is simulated or estimated, where messages share
  // ports rather than take turns. expected_s: what the schedule is made from; ports: none of them
  // before its rank arrives.
  std::vector<double> (*flow)(const std::vector<double>& expected_s, FlowingPorts& ports,
                              int segments, double message_bytes, const Link& link) = nullptr;
};

struct Algorithm {
  const char* name;
  const char* collective;
  const char* source;  // paper and section
  Uses uses;
  // One rank's steps alone. Where ranks take their places as they really arrive: those that the
  // arrivals given would have.
  Steps (*generate)(const Problem& problem, int rank);
  // How many suit a message; see segments_for().
  std::int64_t (*segments)(int ranks, const Bucket& bucket, const Link& link);

  bool usual = false;    // its collective's, where none is named
  bool tree = false;     // every sum is that of schedule/tree.h
  bool by_node = false;  // it takes account of Problem::node_of
  bool by_port = false;  // of Problem::ports
  Sends sends = Sends::otherwise;
  // All ranks' steps at once, where one rank's cost nearly as much; else null.
  std::vector<Steps> (*generate_all)(const Problem& problem) = nullptr;
  Rounds rounds = {};                      // null where its steps have none
  Times (*times)(const Timed&) = nullptr;  // null: it depends on none
  Pricing pricing = {};                    // null where nothing but its name chooses it

  bool dynamic() const { return uses == Uses::real_order; }
};

const std::vector<Algorithm>& algorithms();

// Of those of the name the one for `collective`; empty: the first. Null if there is none.
const Algorithm* known_algorithm(const std::string& name, const std::string& collective = "");
// Throws ScheduleError listing the known names.
const Algorithm& find_algorithm(const std::string& name, const std::string& collective = "");
// What `collective` is done by where no algorithm is named and nothing is known of the arrivals.
// Throws ScheduleError unless it is one of schedule/verify.h, "all_to_all" or "shift".
const Algorithm& usual_algorithm(const std::string& collective);
// Those that are chosen by price, of all or of those that work by node. The first is the usual one,
// which is safe: no forecast can make it worse. What relies on less comes first, and is taken of
// those that cost the same.
const std::vector<const Algorithm*>& candidates(bool by_node = false);

// Four steps a segment and rank: the executor's tags number 2^18.
constexpr std::uint64_t most_segments = 60000;
// At least 1, at most the elements and most_segments; a multiple of the parts where an algorithm
// works on parts.
int segments_for(const Algorithm& algorithm, int ranks, const Bucket& bucket, const Link& link);
// Zeros where it depends on none.
Times times_of(const Algorithm& algorithm, const Timed& timed);

Steps generate_steps(const Algorithm& algorithm, const Problem& problem, int rank);
Schedule generate(const Algorithm& algorithm, const Problem& problem);

}  // namespace patallreduce::algorithms
