#include "schedule/print.h"

#include <sstream>

#include "errors.h"

namespace patallreduce::schedule {

std::string text(const Step& step) {
  std::ostringstream line;
  line << name(step.verb) << (step.verb == Verb::send ? " -> " : " <- ") << step.peer;
  if (step.last == step.first + 1) {
    line << " segment " << step.first;
  } else {
    line << " segments [" << step.first << ", " << step.last << ")";
  }
  if (step.round >= 0) line << " round " << step.round;
  return line.str();
}

std::string place(const Schedule& schedule, int rank, std::size_t index) {
  return concat("rank ", rank, " step ", index, " (", text(schedule.steps[rank][index]), ")");
}

std::string heading(const Schedule& schedule) {
  return concat(schedule.algorithm, " ", schedule.collective, ", ranks ", schedule.problem.ranks,
                ", segments ", schedule.problem.segments);
}

std::string text(const Schedule& schedule) {
  std::ostringstream lines;
  lines << heading(schedule);
  for (std::size_t rank = 0; rank < schedule.steps.size(); ++rank) {
    lines << "\nrank " << rank;
    const Steps& steps = schedule.steps[rank];
    for (std::size_t i = 0; i < steps.size(); ++i) lines << "\n  " << i << ": " << text(steps[i]);
  }
  return lines.str();
}

}  // namespace patallreduce::schedule
