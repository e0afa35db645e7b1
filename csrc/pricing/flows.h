// Messages on their way through a switch, those of different pairs of ranks at the same time.
//
// A port that sends divides itself evenly among the ranks that it has something for, as TCP
// connections do. What it sends waits in the switch until the receiver's port has let through
// whatever came to it before, from whomever; its sender does not wait for that. A port that has
// rested lets the first bytes through at once, as a token bucket does, either way.
//
//   cost    a start or end O(ranks + messages on their way)
//   source  processor sharing: Kleinrock, Queueing Systems II (1976), 4.4; an output queue that
//           holds all it is sent: Karol, Hluchyj, Morgan, IEEE Trans. Comm. 35 (1987)
#pragma once

#include <cstdint>
#include <vector>

namespace patallreduce::pricing {

class Flows {
 public:
  struct Flow {
    std::int32_t from, to;  // ranks
    std::int32_t step;      // of `from`
    double after_s;         // from the end of its sending until it is there, besides the switch
    double left_s;          // of the sending port's whole rate
    double slower;          // the receiving port's time for what takes the sending one a second
  };

  Flows(int ranks, double burst_s);

  // At `now_s`, not before any other call's. It needs its sender's port for `transfer_s`, of which
  // that can let through some at once, and for `fixed_s`; that can be negative: part of the
  // transfer is over.
  void start(Flow flow, double fixed_s, double transfer_s, double now_s);
  // When the next one has been sent if none starts before; HUGE_VAL: none is on its way.
  double next_s() const;
  // Ends it, of several the one that started first. after_s has become what is left for it.
  Flow end();

 private:
  struct Port {
    double tokens_s;         // of sending
    double queue_s;          // until the switch has sent on all that came so far; negative: tokens
    std::int32_t sends = 0;  // messages on their way
  };

  double rate(const Flow& flow) const { return 1.0 / ports_[flow.from].sends; }
  void advance(double now_s);

  double burst_s_;
  double now_s_;
  std::vector<Port> ports_;    // by rank
  std::vector<double> comes_;  // by rank: what comes to it, of its port's rate
  std::vector<Flow> flows_;    // by their start
};

}  // namespace patallreduce::pricing
