// How wide each rank's port is while the job runs, by what ranks say that they sent.
//
// What goes from one rank to another is as slow as the narrower of their ports. In a ring a rank
// sends to one other only, so a flow is as fast as both ports allow: a port is as wide as the
// fastest flow that touches it, and narrow only if the other end of a slow one is known to be wide.
// In a direct exchange a rank sends to all others at once, which fills its own port until the first
// of them have everything. What chains send tells neither; then nothing changes.
//
// Widths are compared with those known before, and over ranks: what all see alike is no port's.
// Where most flows are slower than their ports, something else holds them up, such as a busy
// processor or data that come bit by bit, and nothing is learned. A port counts as changed once it
// was seen so by a factor of 1.4 three times in a row; as narrower only if iterations took longer,
// too; and as no wider than the widest was at first, since short messages leave faster than long
// ones can.
#pragma once

#include <cstdint>
#include <vector>

#include "monitor/reports.h"
#include "selection/schedules.h"

namespace patallreduce::monitor {

using selection::Sends;

class Ports {
 public:
  // Bytes per second, by rank, as measured before.
  explicit Ports(std::vector<double> bytes_per_s);

  // How all buckets of an iteration are sent, and of those that follow until the next call.
  void runs(std::int64_t iteration, Sends sends);
  // Returns true if a port has changed. `slowed`: the last iteration took longer than it does with
  // ports as they are known.
  bool take(int rank, const LinkUsed& report, bool slowed);
  const std::vector<double>& bytes_per_s() const { return now_; }

 private:
  bool learn(bool slowed);
  std::vector<double> seen() const;
  std::vector<bool> proven(const std::vector<double>& seen) const;

  const std::vector<double> start_;
  const double widest_;
  std::vector<double> now_;
  Sends sends_ = Sends::otherwise;
  std::int64_t since_ = 0;                // what runs, has run since then
  std::vector<std::vector<Flow>> flows_;  // by rank, since learn() was called last
  std::vector<bool> told_;                // whose they are
  std::vector<int> off_;                  // by rank, how often in a row; below 0: narrower
  std::vector<double> factor_;            // by which, the most of these times
};

}  // namespace patallreduce::monitor
