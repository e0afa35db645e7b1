// Messages on their way through a switch, those of different pairs of ranks at the same time.
//
// A port that sends divides itself evenly among the ranks that it has something for, as TCP
// connections do; none gets more than one pair of ranks can use. What it sends waits in the switch
// until the receiver's port has let through whatever came to it before, from whomever; its sender
// does not wait for that. A port that has rested lets the first bytes through at once, as a token
// bucket does, either way.
//
//   cost    a start or end O(ranks + messages on their way from the same port)
//   source  processor sharing: Kleinrock, Queueing Systems II (1976), 4.4; an output queue that
//           holds all it is sent: Karol, Hluchyj, Morgan, IEEE Trans. Comm. 35 (1987)
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace patallreduce::pricing {

class Flows {
 public:
  struct Flow {
    std::int32_t from, to;    // ports
    std::int32_t rank, step;  // whose message it is
    double begin_s;
    double after_s;  // from the end of its sending until it is there, besides the switch
    double slower;   // the receiving port's time for what takes the sending one a second
  };

  // partners: with how many others at once a rank's port is full; an uplink with any. Uplinks are
  // numbered on from the ranks' ports.
  Flows(int ports, int uplinks, double burst_s, double partners);

  // At `now_s`, not before any other call's. It needs its sender's port for `transfer_s`, of which
  // that can let through some at once, and for `fixed_s`; that can be negative: part of the
  // transfer is over.
  void start(const Flow& flow, double fixed_s, double transfer_s, double now_s);
  // When the next one has been sent if none starts before; HUGE_VAL: none is on its way.
  double next_s() const { return next_s_; }
  // Ends it, of several the one that started first. after_s has become what is left for it.
  Flow end();

 private:
  struct Sent {
    Flow flow;
    double until;          // by the port's clock
    std::uint64_t number;  // of its start
  };
  struct Port {
    double partners;
    // Sending: the clock is what each of its messages has been given so far, of a pair's rate.
    std::vector<Sent> sends;
    double clock = 0, clock_s, tokens_s;
    std::size_t first = 0;  // of `sends`, that ends next
    // Receiving: what came and the switch has not sent on, in seconds of a pair; negative: tokens.
    double queue_s, queued_s, comes = 0;  // this, as of, and what comes, of a pair's rate

    // What takes one message a second takes each of so many.
    double slowed(std::size_t among) const { return std::max(1.0, double(among) / partners); }
  };

  void advance_sends(Port& port, double now_s);
  void advance_queue(Port& port, double now_s) const;
  void share(Port& port, double now_s, std::size_t before);
  void find_next();

  double burst_s_;
  std::uint64_t started_ = 0;
  double next_s_;
  std::size_t next_port_ = 0;
  std::vector<Port> ports_;
};

}  // namespace patallreduce::pricing
