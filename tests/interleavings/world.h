// The ranks of one communicator in simulated time: one of them runs at a time, until it looks at
// its transport; who is next, what arrives and how late is drawn from a seed. So a run of a seed
// can be repeated, and millions of seeds be tried.
//
// A rank is a fiber that runs ordinary blocking code on a real engine. Time goes on as ranks look
// for what has arrived, and faster while they have nothing to do.
#pragma once

#include <ucontext.h>

#include <deque>
#include <functional>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "transport/transport.h"

namespace patallreduce::interleavings {

using transport::Events;
using transport::Token;
using transport::Transport;
using Random = std::mt19937_64;

inline int pick(Random& random, int first, int last) {
  return std::uniform_int_distribution<int>(first, last)(random);
}
inline double part(Random& random) { return std::uniform_real_distribution<double>(0, 1)(random); }

class World {
 public:
  World(unsigned long seed, int ranks);
  ~World();
  World(const World&) = delete;

  // Runs `body` as every rank, until all have returned, are dead, or `limit_s` has passed.
  // False: some have not returned, so they hang.
  bool run(const std::function<void(int rank)>& body, double limit_s);

  std::shared_ptr<Transport> transport(int rank);
  // After that many looks of any rank at its transport.
  void after(int looks, std::function<void()> what);

  // What can go wrong. A dead rank never runs again, and the others notice sooner or later.
  void kill(int rank);
  void die();  // the rank that runs; does not return
  void stop(int rank, double seconds);
  // That many allocations of a rank fail, `after` others.
  void exhaust(int rank, long after, long allocations);
  // Nothing passes between two ranks any more; `noticed`: both lose each other.
  void cut(int a, int b, bool noticed);

  // Whether the allocation that is being made has to fail.
  bool fails();

  double now_s() const { return now_s_; }
  bool dead(int rank) const { return ranks_[rank]->dead; }
  bool returned(int rank) const { return ranks_[rank]->returned; }
  Random& random() { return random_; }

 private:
  friend class Wire;
  friend class Outside;

  struct Parcel {
    enum class Kind { control, data, lost } kind;
    int from;
    double ready_s;
    std::string bytes;  // a control message, a buffered message, or the reason of a loss
    std::uint64_t tag = 0;
    const void* data = nullptr;  // null: buffered
    std::size_t data_bytes = 0;
    Token token = 0;
    long number = 0;  // of all that was ever posted
  };
  struct Posted {
    int from;
    std::uint64_t tag;
    void* data;
    std::size_t bytes;
    Token token;
  };
  struct Finished {
    Token token;
    double ready_s;
  };
  struct Rank {
    ucontext_t context;
    std::vector<char> stack;
    std::function<void()> body;
    char exceptions[16] = {};  // of the fiber: what __cxa_get_globals points to
    bool returned = false;
    bool dead = false;
    bool gone = false;  // its transport is closed
    double stopped_until_s = 0;
    long allocations_left = -1;  // that succeed, before some fail; negative: all
    long failing_allocations = 0;
    double weight = 1;  // how often it runs
    // By sender: in order; and in any order.
    std::vector<std::deque<Parcel>> ordered;
    std::vector<std::vector<Parcel>> unordered;
    std::vector<Parcel> unexpected;
    std::vector<Posted> posted;
    std::vector<Finished> finished;
  };

  static void enter(unsigned high, unsigned low);
  void look(double longest_s);  // from the rank that runs
  void leave();
  int next();
  bool runs(int rank) const;
  double delay_s(int from, int to);
  void post(int from, int to, Parcel parcel);
  void lose(int from, int to, const std::string& reason);
  bool deliver(int to, Events& events);
  void hand_over(int to, const Parcel& parcel, const Posted& posted, Events& events);
  void forget(int rank);

  Random random_;
  double now_s_ = 1;
  long looks_ = 0, posted_ = 0;
  int running_ = -1;
  bool outside_ = true;  // of the ranks' own code
  ucontext_t scheduler_;
  std::vector<std::unique_ptr<Rank>> ranks_;
  std::vector<std::vector<double>> latency_s_;
  std::vector<std::vector<char>> cut_;
  std::vector<std::pair<int, std::function<void()>>> planned_;
};

// Allocations meanwhile are not the rank's. Ranks change within.
class Outside {
 public:
  explicit Outside(World& world) : world_(world) { world_.outside_ = true; }
  ~Outside() { world_.outside_ = false; }

 private:
  World& world_;
};

}  // namespace patallreduce::interleavings
