// The ways to make Clairvoyant's schedule as a library for Python's ctypes: __init__.py.
#include <string>

#include "algorithms/clairvoyant/bit_rows.h"
#include "benchmarks/clairvoyant_rivals/rivals.h"

using patallreduce::algorithms::ClairvoyantSchedule;
using patallreduce::schedule::Problem;
using patallreduce::schedule::Step;

namespace {

ClairvoyantSchedule made_by(const std::string& way, const Problem& problem) {
  if (way == "linear") return patallreduce::algorithms::clairvoyant_linear(problem);
  if (way == "pairing_heap") return patallreduce::algorithms::clairvoyant_pairing_heap(problem);
  if (way == "segment_tree") return patallreduce::algorithms::clairvoyant_segment_tree(problem);
  return patallreduce::algorithms::clairvoyant_bit_rows(problem);
}

}  // namespace

extern "C" {

ClairvoyantSchedule* make(const char* way, int ranks, int segments, const double* arrivals_s,
                          int arrivals, int root, double segment_time_s) {
  const Problem problem{ranks, segments, {arrivals_s, arrivals_s + arrivals}, segment_time_s, root};
  return new ClairvoyantSchedule(made_by(way, problem));
}

void discard(ClairvoyantSchedule* made) { delete made; }

std::size_t state_bytes(const ClairvoyantSchedule* made) { return made->state_bytes; }

std::size_t count(const ClairvoyantSchedule* made, int rank) { return made->steps[rank].size(); }

const Step* steps(const ClairvoyantSchedule* made, int rank) { return made->steps[rank].data(); }

}  // extern "C"
