// What goes between ranks: how late it arrives and in which order, and what is lost with a rank.
#include <algorithm>
#include <cstring>

#include "world.h"

namespace patallreduce::interleavings {

// One rank's end of all channels.
class Wire final : public Transport {
 public:
  Wire(World& world, int rank) : world_(world), rank_(rank) {}

  const char* name() const override { return "simulated"; }
  int rank() const override { return rank_; }
  int ranks() const override { return static_cast<int>(world_.ranks_.size()); }

  void send(int to, std::uint64_t tag, const void* data, std::size_t bytes, Token token) override {
    const Outside outside(world_);
    World::Parcel parcel{World::Parcel::Kind::data, rank_, 0, {}, tag, data, bytes, token};
    if (bytes <= 256 && pick(world_.random_, 0, 1)) {
      parcel.bytes.assign(static_cast<const char*>(data), bytes);
      parcel.data = nullptr;
      own().finished.push_back({token, world_.now_s_ + world_.delay_s(rank_, to)});
    }
    world_.post(rank_, to, std::move(parcel));
  }

  void recv(int from, std::uint64_t tag, void* data, std::size_t bytes, Token token) override {
    const Outside outside(world_);
    own().posted.push_back({from, tag, data, bytes, token});
  }

  void control(int to, const std::string& bytes) override {
    const Outside outside(world_);
    world_.post(rank_, to, {World::Parcel::Kind::control, rank_, 0, bytes});
  }

  void progress(Events& events) override {
    const Outside outside(world_);
    world_.look(100e-6);
    if (own().gone) return;
    for (int left = pick(world_.random_, 0, 3); left > 0 && world_.deliver(rank_, events); --left) {
    }
  }

  bool arm() override {
    const Outside outside(world_);
    world_.look(2e-3);
    return false;
  }
  std::vector<int> event_fds() const override { return {}; }

  void abandon() override { close(0); }
  void close(double) override {
    const Outside outside(world_);
    world_.forget(rank_);
  }

 private:
  World::Rank& own() const { return *world_.ranks_[rank_]; }

  World& world_;
  const int rank_;
};

std::shared_ptr<Transport> World::transport(int rank) {
  return std::make_shared<Wire>(*this, rank);
}

double World::delay_s(int from, int to) {
  const double usual_s = latency_s_[from][to];
  return usual_s * (pick(random_, 0, 20) == 0 ? 30 : 2) * part(random_);
}

void World::post(int from, int to, Parcel parcel) {
  Rank& target = *ranks_[to];
  if (cut_[from][to] || target.dead || target.gone || ranks_[from]->gone) return;
  parcel.ready_s = now_s_ + delay_s(from, to);
  parcel.number = ++posted_;
  if (parcel.kind == Parcel::Kind::data)
    target.unordered[from].push_back(std::move(parcel));
  else
    target.ordered[from].push_back(std::move(parcel));
}

void World::lose(int from, int to, const std::string& reason) {
  Rank& target = *ranks_[to];
  if (target.dead || target.gone) return;
  const double noticed_s = now_s_ + delay_s(from, to) + (pick(random_, 0, 3) ? 0 : part(random_));
  target.ordered[from].push_back({Parcel::Kind::lost, from, noticed_s, reason});
}

void World::kill(int rank) {
  const Outside outside(*this);
  Rank& dying = *ranks_[rank];
  if (dying.dead || dying.returned) return;
  dying.dead = true;
  for (int to = 0; to < static_cast<int>(ranks_.size()); ++to) {
    if (to == rank) continue;
    Rank& target = *ranks_[to];
    // What it still held goes with it, and perhaps what was about to leave.
    auto& ordered = target.ordered[rank];
    auto& unordered = target.unordered[rank];
    const auto held = [](const Parcel& parcel) { return parcel.data != nullptr; };
    unordered.erase(std::remove_if(unordered.begin(), unordered.end(), held), unordered.end());
    auto& waiting = target.unexpected;
    waiting.erase(std::remove_if(waiting.begin(), waiting.end(),
                                 [&](const Parcel& p) { return p.from == rank && held(p); }),
                  waiting.end());
    // The last that it sent: a connection loses nothing that was sent before what it delivers.
    const long last = posted_ - pick(random_, 0, 20);
    const auto too_late = [&](const Parcel& parcel) { return parcel.number > last; };
    ordered.erase(std::remove_if(ordered.begin(), ordered.end(), too_late), ordered.end());
    unordered.erase(std::remove_if(unordered.begin(), unordered.end(), too_late), unordered.end());
    if (!dying.gone) lose(rank, to, "killed");
  }
}

void World::cut(int a, int b, bool noticed) {
  for (const auto& [from, to] : {std::pair{a, b}, std::pair{b, a}}) {
    if (cut_[from][to]) continue;
    cut_[from][to] = 1;
    Rank& target = *ranks_[to];
    target.ordered[from].clear();
    target.unordered[from].clear();
    if (noticed) lose(from, to, "the link was cut");
  }
}

// Its memory may be used for something else from here on; the others notice that it is gone.
void World::forget(int rank) {
  Rank& leaving = *ranks_[rank];
  if (leaving.gone) return;
  for (int to = 0; to < static_cast<int>(ranks_.size()); ++to) {
    Rank& target = *ranks_[to];
    const auto held = [rank](const Parcel& p) { return p.from == rank && p.data != nullptr; };
    auto& unordered = target.unordered[rank];
    unordered.erase(std::remove_if(unordered.begin(), unordered.end(), held), unordered.end());
    auto& waiting = target.unexpected;
    waiting.erase(std::remove_if(waiting.begin(), waiting.end(), held), waiting.end());
    if (to != rank && !cut_[rank][to]) lose(rank, to, "closed");
  }
  leaving.gone = true;
  leaving.posted.clear();
  leaving.finished.clear();
  leaving.unexpected.clear();
  for (auto& channel : leaving.ordered) channel.clear();
  for (auto& channel : leaving.unordered) channel.clear();
}

void World::hand_over(int to, const Parcel& parcel, const Posted& posted, Events& events) {
  if (posted.bytes != parcel.data_bytes) {
    events.lost.push_back({parcel.from, "sent a message of another size"});
    return;
  }
  if (parcel.data_bytes > 0)
    std::memcpy(posted.data, parcel.data ? parcel.data : parcel.bytes.data(), parcel.data_bytes);
  events.finished.push_back(posted.token);
  if (parcel.data && !ranks_[parcel.from]->gone)
    ranks_[parcel.from]->finished.push_back({parcel.token, now_s_ + delay_s(to, parcel.from)});
}

// One thing that has arrived; false: nothing has.
bool World::deliver(int to, Events& events) {
  Rank& rank = *ranks_[to];
  for (auto posted = rank.posted.begin(); posted != rank.posted.end(); ++posted) {
    const auto match =
        std::find_if(rank.unexpected.begin(), rank.unexpected.end(), [&](const Parcel& parcel) {
          return parcel.from == posted->from && parcel.tag == posted->tag;
        });
    if (match == rank.unexpected.end()) continue;
    const Parcel parcel = std::move(*match);
    rank.unexpected.erase(match);
    const Posted taken = *posted;
    rank.posted.erase(posted);
    hand_over(to, parcel, taken, events);
    return true;
  }
  const int ranks = static_cast<int>(ranks_.size());
  for (int tried = 0, from = pick(random_, 0, ranks - 1); tried < ranks;
       ++tried, from = (from + 1) % ranks) {
    auto& unordered = rank.unordered[from];
    std::vector<std::size_t> ready;
    for (std::size_t i = 0; i < unordered.size(); ++i)
      if (unordered[i].ready_s <= now_s_) ready.push_back(i);
    auto& ordered = rank.ordered[from];
    // The end of a connection is behind all that came through it.
    const bool next = !ordered.empty() && ordered.front().ready_s <= now_s_ &&
                      (ordered.front().kind == Parcel::Kind::control || unordered.empty());
    const int choices = static_cast<int>(ready.size()) + (next ? 1 : 0);
    if (choices == 0) continue;
    const int choice = pick(random_, 0, choices - 1);
    if (choice < static_cast<int>(ready.size())) {
      rank.unexpected.push_back(std::move(unordered[ready[choice]]));
      unordered.erase(unordered.begin() + static_cast<std::ptrdiff_t>(ready[choice]));
      return true;
    }
    Parcel parcel = std::move(ordered.front());
    ordered.pop_front();
    if (parcel.kind == Parcel::Kind::control)
      events.control.push_back({from, std::move(parcel.bytes)});
    else
      events.lost.push_back({from, std::move(parcel.bytes)});
    return true;
  }
  for (std::size_t i = 0; i < rank.finished.size(); ++i) {
    if (rank.finished[i].ready_s > now_s_) continue;
    events.finished.push_back(rank.finished[i].token);
    rank.finished.erase(rank.finished.begin() + static_cast<std::ptrdiff_t>(i));
    return true;
  }
  return false;
}

}  // namespace patallreduce::interleavings
