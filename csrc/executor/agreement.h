// What ranks tell each other so that all do the same: that they are there, what they call, who is
// at which place of a dynamic schedule, that they failed or leave.
//
// On arrival a rank announces number and call to the ranks it will send to, which may then receive
// before their own arrival, and to the next rank, which compares. Of a dynamic schedule rank 0
// hears every arrival, and tells places.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "executor/call.h"
#include "executor/control.h"
#include "executor/failure.h"
#include "executor/places.h"
#include "executor/program.h"
#include "transport/transport.h"

namespace patallreduce::executor {

using transport::Events;
using transport::Transport;

class Agreement {
 public:
  explicit Agreement(Transport& transport);

  void tell(int peer, const Message& message);
  void tell_all(const Message& message);                                     // but those that left
  void tell_present(const std::vector<int>& peers, const Message& message);  // likewise

  // Throws MismatchError if that rank speaks another version.
  void note_hello(int from, const Hello& hello);
  // The first rank that has not said hello; -1: none.
  int missing() const;

  // This rank has arrived. `program`: of its operation; null: it takes its place now.
  void announce(std::uint64_t seq, const Call& call, const Program* program);
  // Two ranks' calls of one number. Throws MismatchError unless they are equal.
  static void compare(std::uint64_t seq, int a, const Call& call_a, int b, const Call& call_b);

  // Whether this rank tells the places of dynamic schedules.
  bool keeps_places() const { return rank_ == Places::keeper; }
  // Of dynamic collective `seq`, `rank` has arrived: the keeper of places tells the others what
  // that says, and returns what it says to this rank.
  std::vector<BindPlaces> note_arrival(std::uint64_t seq, int rank);
  void note_places(const BindPlaces& told);
  // What this rank knows of them and has not forgotten.
  const std::vector<Place>& places(std::uint64_t seq) { return places_told_[seq]; }
  void forget_places(std::uint64_t seq) { places_told_.erase(seq); }

  // `from` has closed after `called` collectives.
  void note_bye(int from, const Bye& bye);
  bool has_left(int rank) const { return left_.count(rank) > 0; }
  // It has heard this rank's Bye, has closed itself, or failed.
  void note_needs_nothing(int rank) { needs_nothing_[rank] = 1; }
  // Whether no other rank waits for anything that this one sent.
  bool may_leave() const;
  // Throws PeerLostError if a rank has closed that did not call `seq`.
  void check_present(std::uint64_t seq) const;
  // A connection has ended. Throws PeerLostError, unless that rank said goodbye: what still needs
  // it failed then. `during`: what this rank was doing.
  void note_lost(const Events::Lost& loss, const std::string& during);
  // Tells all others why it is over.
  void tell(const Failure& failure, std::uint32_t heard);

 private:
  const int rank_;
  const int ranks_;
  Transport& transport_;
  std::vector<char> greeted_;          // [rank]
  std::vector<char> needs_nothing_;    // [rank], of this one
  std::map<int, std::uint64_t> left_;  // ranks that closed, and how many collectives they called
  Places places_;                      // on rank 0
  std::map<std::uint64_t, std::vector<Place>> places_told_;  // by collective
};

}  // namespace patallreduce::executor
