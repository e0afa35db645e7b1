// A sorted linear tree whose order nobody predicts: ranks take their places in the chain as they
// arrive. The executor runs the steps of places, see executor/places.h; a schedule made of arrivals
// shows what arrivals like these would give.
//
//   messages   those of slt, and for every arrival two of some tens of bytes through rank 0
//   depth      that of slt in the real order, two latencies later at each place but the last two
//   sum order  the order of arrival: another run may change the bits
//   source     Proficz, J. Supercomput. 74 (2018), arXiv:1804.05349, section 4.1, without the
//              estimate of section 3; taking places is ours
#include "algorithms/algorithms.h"

namespace patallreduce::algorithms {

Steps slt_dynamic(const Problem& problem, int rank) {
  Problem places = problem;
  places.node_of.clear();
  return slt(places, rank);
}

}  // namespace patallreduce::algorithms
