#include "executor/agreement.h"

#include <algorithm>
#include <numeric>

#include "errors.h"

namespace patallreduce::executor {

Agreement::Agreement(Transport& transport)
    : rank_(transport.rank()),
      ranks_(transport.ranks()),
      transport_(transport),
      greeted_(ranks_, 0),
      needs_nothing_(ranks_, 0),
      places_(ranks_) {
  greeted_[rank_] = needs_nothing_[rank_] = 1;
}

void Agreement::tell(int peer, const Message& message) {
  transport_.control(peer, encode(message));
}

void Agreement::tell_all(const Message& message) {
  std::vector<int> all(ranks_);
  std::iota(all.begin(), all.end(), 0);
  tell_present(all, message);
}

void Agreement::tell_present(const std::vector<int>& peers, const Message& message) {
  const std::string bytes = encode(message);
  for (const int peer : peers)
    if (peer != rank_ && !left_.count(peer)) transport_.control(peer, bytes);
}

void Agreement::note_hello(int from, const Hello& hello) {
  if (hello.version != protocol_version) {
    throw MismatchError(
        concat("rank ", rank_, " speaks version ", protocol_version,
               " of the protocol between ranks, rank ", from, " speaks version ", hello.version,
               ": expected the same release of patallreduce on all ranks"),
        from);
  }
  greeted_[from] = 1;
}

int Agreement::missing() const {
  const auto found = std::find(greeted_.begin(), greeted_.end(), 0);
  return found == greeted_.end() ? -1 : static_cast<int>(found - greeted_.begin());
}

void Agreement::announce(std::uint64_t seq, const Call& call, const Program* program) {
  std::vector<int> listeners{Places::keeper};
  if (program) listeners = program->send_peers;
  const int next = (rank_ + 1) % ranks_;
  if (std::find(listeners.begin(), listeners.end(), next) == listeners.end())
    listeners.push_back(next);
  const std::string bytes = encode(Announcement{seq, call});
  for (const int peer : listeners)
    if (peer != rank_) transport_.control(peer, bytes);
}

void Agreement::compare(std::uint64_t seq, int a, const Call& call_a, int b, const Call& call_b) {
  if (call_a == call_b) return;
  if (b < a) return compare(seq, b, call_b, a, call_a);  // both may see it: the same words
  throw MismatchError(concat("collective ", seq, " differs between ranks: rank ", a, " called ",
                             describe(call_a), "; rank ", b, " called ", describe(call_b)),
                      a);
}

void Agreement::note_bye(int from, const Bye& bye) {
  left_[from] = bye.called;
  note_needs_nothing(from);
  tell(from, ByeHeard{});
}

bool Agreement::may_leave() const {
  return std::find(needs_nothing_.begin(), needs_nothing_.end(), 0) == needs_nothing_.end();
}

std::vector<BindPlaces> Agreement::note_arrival(std::uint64_t seq, int rank) {
  std::vector<BindPlaces> own;
  if (!keeps_places()) return own;
  for (auto& [to, places] : places_.arrived(seq, rank)) {
    if (to == rank_)
      own.push_back({seq, std::move(places)});  // these come last
    else
      tell(to, BindPlaces{seq, std::move(places)});
  }
  return own;
}

void Agreement::note_places(const BindPlaces& told) {
  std::vector<Place>& known = places_told_[told.seq];
  known.insert(known.end(), told.places.begin(), told.places.end());
}

void Agreement::check_present(std::uint64_t seq) const {
  for (const auto& [rank, called] : left_) {
    if (called > seq) continue;
    throw PeerLostError(concat("rank ", rank, " closed its communicator after ", called,
                               " collectives; rank ", rank_, " called number ", seq + 1),
                        rank);
  }
}

void Agreement::note_lost(const Events::Lost& loss, const std::string& during) {
  note_needs_nothing(loss.rank);
  if (left_.count(loss.rank)) return;
  throw PeerLostError(concat("rank ", loss.rank, " was lost", during, ": ", loss.reason,
                             " (seen by rank ", rank_, ")"),
                      loss.rank);
}

void Agreement::tell(const Failure& failure, std::uint32_t heard) {
  // Not the dead one: UCX would look for its memory, and complain.
  if (failure.kind == Kind::lost) left_.emplace(failure.rank, 0);
  tell_all(Abort{static_cast<std::uint8_t>(failure.kind), failure.rank, failure.what,
                 failure.completed, heard});
}

}  // namespace patallreduce::executor
