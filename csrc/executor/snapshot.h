// What one rank knows of its collectives and of the other ranks at one moment: for a postmortem.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace patallreduce::executor {

struct Snapshot {
  struct Peer {
    std::uint64_t called = 0;  // collectives, as far as it is known here
    double heard_s = 0;        // when anything last came from it; 0: never
  };
  struct Waiting {  // a collective that was called here and has no result
    std::uint64_t seq;
    std::string call;
    double arrival_s;
    int waits_for;  // -1: for nobody in particular
    bool for_plan;
  };

  bool failed = false;
  double at_s = 0;
  std::uint64_t called = 0;
  std::vector<Peer> peers;  // by rank; this one's is empty
  std::vector<Waiting> waiting;
};

}  // namespace patallreduce::executor
