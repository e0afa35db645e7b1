// The edges of the current iteration, and what usually follows them.
//
// Fractions fall into slots of 1/16, so that any fractions can be reported, even others in each
// iteration. All times are offsets from the iteration's start.
//
//   source  edge(fraction) of Proficz, J. Supercomput. 74 (2018), section 3
#pragma once

#include <array>

#include "prediction/history.h"

namespace patallreduce::prediction {

struct Edge {
  double fraction = 0;
  double offset_s = 0;
  int slot = 0;
};

class Edges {
 public:
  static constexpr int slots = 16;

  void forget();   // a new iteration
  void restart();  // everything, learned too
  // The first report of a slot stands: a doubled one changes nothing.
  void add(double fraction, double offset_s);
  // The iteration's last bucket arrived `arrival_s` after the start.
  void learn(double arrival_s);

  const Edge* newest() const;      // highest fraction seen in this iteration; null: none
  const Edge* at(int slot) const;  // null: not seen in this iteration
  // Offset of a slot's edge in earlier iterations; count() 0: never seen.
  const History& usual_offset_s(int slot) const { return learned_[slot].offset_s; }
  // Time from a slot's edge to the last arrival in earlier iterations.
  const History& usual_rest_s(int slot) const { return learned_[slot].rest_s; }

  // The earliest the last bucket can arrive if at `offset_s` nothing beyond the newest edge has
  // been heard: an edge that is usually reported lies still ahead, and its usual rest after it.
  // `offset_s` itself where no such edge is.
  double silence_s(double offset_s) const;

 private:
  struct Learned {
    History offset_s, rest_s;
    double reported = 0;  // share of the recent iterations in which the edge came
  };
  std::array<Learned, slots> learned_;
  std::array<Edge, slots> now_;
  unsigned seen_ = 0;  // bit per slot
};

int slot_of(double fraction);

// The three extrapolations: when the last bucket arrives, as offset from the start.
double additive(const Edge& edge, double usual_rest_s);
// The usual rest stretched by how slow this iteration has been: offset / usual offset.
double proportional(const Edge& edge, double usual_offset_s, double usual_rest_s);
double linear(const Edge& edge);

}  // namespace patallreduce::prediction
