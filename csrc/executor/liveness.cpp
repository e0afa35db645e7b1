#include "executor/liveness.h"

#include <algorithm>

#include "errors.h"

namespace patallreduce::executor {

namespace {

std::string list(const std::vector<int>& ranks) {
  std::string text = ranks.size() == 1 ? "rank " : "ranks ";
  for (std::size_t i = 0; i < ranks.size(); ++i) text += concat(i ? ", " : "", ranks[i]);
  return text;
}

}  // namespace

void Liveness::heard(int peer, double now_s, std::uint64_t called) {
  heard(peer, now_s);
  peers_[peer].called = std::max(peers_[peer].called, called);
}

bool Liveness::due(double now_s, double interval_s) {
  if (asked_s_ != 0 && now_s < asked_s_ + interval_s) return false;
  asked_s_ = now_s;
  if (first_asked_s_ == 0) first_asked_s_ = now_s;
  return true;
}

Liveness::Culprit Liveness::culprit(std::uint64_t seq, double now_s, double interval_s) const {
  Culprit silent, absent;
  for (int peer = 0; peer < static_cast<int>(peers_.size()); ++peer) {
    if (peer == rank_) continue;
    const bool asked_long_ago = first_asked_s_ != 0 && now_s > first_asked_s_ + 2 * interval_s;
    if (asked_long_ago && peers_[peer].heard_s < now_s - 2.5 * interval_s)
      silent.ranks.push_back(peer);
    else if (peers_[peer].called <= seq)
      absent.ranks.push_back(peer);
  }
  if (!silent.ranks.empty()) {
    silent.text = list(silent.ranks) + " did not answer (stopped, or cut off the network)";
    return silent;
  }
  if (!absent.ranks.empty()) {
    absent.text = list(absent.ranks) + " had not called it";
    return absent;
  }
  return {{}, "all ranks had called it and answered"};
}

}  // namespace patallreduce::executor
