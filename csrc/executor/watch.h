// Deadlines, and who is alive: pulses while something is pending, and the culprit of a timeout.
//
// A rank whose collective has been pending for one interval asks every rank for a pulse, once an
// interval. Engines answer by themselves, so silence means a stopped process or a cut network, and
// an answer with a low count means a rank that has not called yet. To ask is a pulse, too: whoever
// was heard of lately is not asked, and ranks begin to ask one after the other. All at once they
// would keep the processors of their hosts busy just when a late rank may arrive.
// A process that was itself held up (stopped, starved) has heard nobody: it asks again, and gives
// the others time to answer before it blames them.
#pragma once

#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "executor/operation.h"
#include "executor/snapshot.h"

namespace patallreduce::executor {

// A collective that was called here and has no result yet.
struct Waiting {
  std::uint64_t seq;
  const Call& call;
  double arrival_s;
  double timeout_s;
  const Operation* operation;  // null: it has not begun
  bool for_plan;
};

class Watch {
 public:
  Watch(int ranks, int rank) : rank_(rank), peers_(ranks) {}

  void heard(int peer, double now_s) { peers_[peer].heard_s = now_s; }
  // `called`: how many collectives that rank has called.
  void heard(int peer, double now_s, std::uint64_t called);
  // Its connection has ended after its goodbye: nothing comes that is not here by now.
  void note_ended(int peer) { ended_.insert(peer); }

  bool is_due(double now_s) const { return now_s >= next_look_s_; }
  void look_soon() { next_look_s_ = 0; }
  void nothing_pending() { looked_s_ = 0; }

  // A look: begin(), see() for all that waits, end(). see() throws TransportTimeout at a deadline,
  // and PeerLostError where a message is waited for that cannot come any more; end() says which
  // ranks to ask for a pulse now.
  void begin(double now_s);
  void see(const Waiting& waiting);
  std::vector<int> end();
  // Who has not answered for a while, though asked.
  std::vector<int> silent() const;
  const std::vector<Snapshot::Peer>& peers() const { return peers_; }
  // Longer than a monitor that lives ever lets its own rank wait.
  bool waits_too_long_for_plan(const Waiting& waiting) const;

 private:
  double interval_s() const;
  std::vector<int> unheard_for(double intervals) const;  // ranks
  void start_asking_anew();
  void miss(const Waiting& waiting);
  [[noreturn]] void time_out(const Waiting& waiting) const;
  // Who holds up collective `seq`: the silent, the one waited for before others, else those that
  // have not called, else nobody.
  std::pair<int, std::string> culprit(std::uint64_t seq, int waits_for) const;

  const int rank_;
  std::vector<Snapshot::Peer> peers_;
  std::set<int> ended_;                                                      // ranks
  std::map<std::pair<std::uint64_t, std::int32_t>, double> missed_since_s_;  // by seq and step
  double asked_s_ = 0;        // for pulses; 0: not in this pending stretch
  double first_asked_s_ = 0;  // of the pending stretch
  double next_look_s_ = 0;
  double looked_s_ = 0;  // when deadlines were last looked at; 0: nothing was pending
  double judge_after_s_ = 0;
  double shortest_timeout_s_ = 5;  // of what is pending
  bool waits_long_ = false;        // something has been pending until this rank's turn to ask
};

}  // namespace patallreduce::executor
