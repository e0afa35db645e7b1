// Who is alive, and how far along: pulses while something is pending, and the culprit of a
// timeout.
//
// A rank whose collective has been pending for one interval asks every rank for a pulse, once an
// interval. Engines answer by themselves, so silence means a stopped process or a cut network, and
// an answer with a low count means a rank that has not called yet.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace patallreduce::executor {

class Liveness {
 public:
  Liveness(int ranks, int rank) : rank_(rank), peers_(ranks) {}

  void heard(int peer, double now_s) { peers_[peer].heard_s = now_s; }
  void heard(int peer, double now_s, std::uint64_t called);

  // Whether to ask everybody now; `interval_s` as of the shortest pending deadline.
  bool due(double now_s, double interval_s);
  void nothing_pending() {
    asked_s_ = 0;
    first_asked_s_ = 0;
  }

  struct Culprit {
    std::vector<int> ranks;
    std::string text;
  };
  // Who holds up collective `seq`: the silent, else those that have not called, else nobody.
  Culprit culprit(std::uint64_t seq, double now_s, double interval_s) const;

 private:
  struct Peer {
    double heard_s = 0;
    std::uint64_t called = 0;
  };
  int rank_;
  std::vector<Peer> peers_;
  double asked_s_ = 0;
  double first_asked_s_ = 0;  // of the pending stretch
};

}  // namespace patallreduce::executor
