// Clairvoyant as it is printed: every peer is searched for among all ranks, segment by segment.
//
//   time    O(R P^2 N) for R rounds: the definition, for tests and for comparison
//   memory  one byte per rank and segment
//   source  CLV20, Listing 2
#include <algorithm>

#include "benchmarks/clairvoyant_rivals/rivals.h"

namespace patallreduce::algorithms {

using schedule::Problem;

namespace {

enum class State : char { sent, held, received };  // the papers' E, A and P, P'

class LinearPeers {
 public:
  LinearPeers(const Problem& problem, const Group&)
      : segments_(problem.segments),
        state_(std::size_t(problem.ranks) * problem.segments, State::held),
        has_sent_(problem.ranks, false) {}

  void begin(const Group& group) { ranks_ = &group.ranks(); }

  Found find(std::int32_t rank, bool is_sink) const {
    for (std::int32_t s = 0; s < segments_; ++s) {
      if (!is_sink && !holds(rank, s)) continue;
      for (const std::int32_t peer : *ranks_)
        if (peer != rank && !has_sent_[peer] && holds(peer, s)) return {peer, s};
    }
    return {};
  }

  bool holds(std::int32_t rank, std::int32_t segment) const {
    return state_[at(rank, segment)] == State::held;
  }

  void move(std::int32_t from, std::int32_t to, std::int32_t segment) {
    has_sent_[from] = true;
    state_[at(from, segment)] = State::sent;
    state_[at(to, segment)] = State::received;
    received_.push_back(at(to, segment));
  }

  void end(const Group& group) {
    for (const std::size_t cell : received_) state_[cell] = State::held;
    received_.clear();
    for (const std::int32_t rank : group.ranks()) has_sent_[rank] = false;
  }

  std::size_t bytes() const { return state_.size() * sizeof(State); }

 private:
  std::size_t at(std::int32_t rank, std::int32_t segment) const {
    return std::size_t(rank) * segments_ + segment;
  }

  const std::int32_t segments_;
  std::vector<State> state_;  // [rank * segments + segment]
  std::vector<char> has_sent_;
  std::vector<std::size_t> received_;
  const std::vector<std::int32_t>* ranks_ = nullptr;
};

}  // namespace

ClairvoyantSchedule clairvoyant_linear(const Problem& problem) {
  return run_rounds<LinearPeers>(problem);
}

}  // namespace patallreduce::algorithms
