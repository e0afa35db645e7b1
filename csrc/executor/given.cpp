#include "executor/given.h"

#include <cstdio>
#include <string>

#include "errors.h"
#include "executor/program.h"
#include "schedule/verify.h"
#include "wire.h"

namespace patallreduce::executor {

using schedule::GivenSteps;
using schedule::max_name_bytes;
using schedule::max_segments;
using schedule::Problem;
using schedule::Step;
using schedule::verify;

namespace {

std::uint64_t hash_of(const Schedule& schedule) {
  Hash hash;
  hash.mix(schedule.collective.data(), schedule.collective.size());
  for (const Steps& steps : schedule.steps) {
    hash.mix(steps.size());
    for (const Step& step : steps) {
      hash.mix(step.verb);
      hash.mix(step.peer);
      hash.mix(step.first);
      hash.mix(step.last);
    }
  }
  return hash.value;
}

// The schedule's own name, as much as a key may hold of it, and the hash.
std::string name_of(const Schedule& schedule) {
  char hash[18];
  std::snprintf(hash, sizeof hash, "#%016llx", static_cast<unsigned long long>(hash_of(schedule)));
  std::string name = schedule.algorithm;
  if (name.size() > max_name_bytes - 17) {
    std::size_t end = max_name_bytes - 17;
    while (end > 0 && (name[end] & 0xC0) == 0x80) --end;  // not within a character of UTF-8
    name.resize(end);
  }
  return name + hash;
}

void check_executable(const Schedule& schedule) {
  const Problem& problem = schedule.problem;
  PATR_CHECK(problem.segments < max_segments, ScheduleError, "expected fewer than ", max_segments,
             " segments to execute, got ", problem.segments);
  const bool of_blocks =
      schedule.collective == "all_gather" || schedule.collective == "reduce_scatter";
  PATR_CHECK(!of_blocks || problem.segments % problem.ranks == 0, ScheduleError, "expected for ",
             schedule.collective, " a multiple of ", problem.ranks,
             " segments, as many for each rank's block, got ", problem.segments);
  for (int rank = 0; rank < problem.ranks; ++rank) {
    try {
      compile(schedule.steps[rank], problem.segments, schedule.collective, problem.ranks,
              rank == problem.root);
    } catch (const ScheduleError& error) {
      throw ScheduleError(concat("rank ", rank, ": ", error.what()));
    }
  }
}

}  // namespace

ScheduleKey given_key(const Schedule& schedule, int ranks, int rank) {
  const Problem& problem = schedule.problem;
  PATR_CHECK(problem.ranks == ranks, ScheduleError, "schedule: expected one for ", ranks,
             " ranks, got one for ", problem.ranks, " on rank ", rank);
  verify(schedule);
  check_executable(schedule);
  const bool rooted = schedule.collective == "reduce" || schedule.collective == "broadcast";
  ScheduleKey key{name_of(schedule), problem.segments, problem.arrivals_s};
  key.root = rooted ? problem.root : -1;
  key.given = std::make_shared<const GivenSteps>(GivenSteps{
      schedule.collective, schedule.steps[rank], std::make_shared<const Schedule>(schedule)});
  return key;
}

}  // namespace patallreduce::executor
