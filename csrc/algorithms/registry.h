// Names and generators of the algorithms. Nothing outside this folder knows one by name.
#pragma once

#include <string>
#include <vector>

#include "schedule/schedule.h"

namespace patallreduce::algorithms {

using schedule::Problem;
using schedule::Schedule;
using schedule::Steps;

struct Algorithm {
  const char* name;
  const char* collective;
  const char* source;  // paper and section
  bool uses_arrivals;
  // One rank's steps alone.
  Steps (*generate)(const Problem& problem, int rank);
  // Ranks take their places as they really arrive; generate() shows the schedule of arrivals given.
  bool dynamic = false;
  bool tree = false;  // every sum is that of schedule/tree.h
  // All ranks' steps at once, where one rank's cost nearly as much; else null.
  std::vector<Steps> (*generate_all)(const Problem& problem) = nullptr;
};

const std::vector<Algorithm>& algorithms();

// Of those of the name the one for `collective`; empty: the first. Null if there is none.
const Algorithm* known_algorithm(const std::string& name, const std::string& collective = "");
// Throws ScheduleError listing the known names.
const Algorithm& find_algorithm(const std::string& name, const std::string& collective = "");

Steps generate_steps(const std::string& algorithm, const Problem& problem, int rank,
                     const std::string& collective = "");
Schedule generate(const std::string& algorithm, const Problem& problem,
                  const std::string& collective = "");

}  // namespace patallreduce::algorithms
