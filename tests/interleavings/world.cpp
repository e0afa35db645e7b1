#include "world.h"

#include <cxxabi.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <new>

#include "clock.h"

namespace patallreduce {

namespace {
interleavings::World* current = nullptr;
}

double now_s() { return current ? current->now_s() : 0; }

namespace interleavings {

namespace {

constexpr std::size_t stack_bytes = 256 * 1024;
constexpr double start_s = 1;

}  // namespace

World::World(unsigned long seed, int ranks) : random_(seed) {
  current = this;
  now_s_ = start_s;
  // Some runs have a slow rank, some slow channels.
  const bool uneven = pick(random_, 0, 1), slow = pick(random_, 0, 1);
  for (int rank = 0; rank < ranks; ++rank) {
    ranks_.push_back(std::make_unique<Rank>());
    Rank& made = *ranks_.back();
    made.ordered.resize(ranks);
    made.unordered.resize(ranks);
    if (uneven) made.weight = std::pow(10.0, -part(random_));
    latency_s_.emplace_back();
    cut_.emplace_back(ranks, 0);
    for (int to = 0; to < ranks; ++to)
      latency_s_.back().push_back(slow ? 1e-5 * std::pow(100.0, part(random_)) : 5e-5);
  }
}

World::~World() { current = nullptr; }

void World::after(int looks, std::function<void()> what) {
  planned_.emplace_back(looks, std::move(what));
}

void World::enter(unsigned high, unsigned low) {
  auto* const world =
      reinterpret_cast<World*>(static_cast<std::uintptr_t>(high) << 32 | std::uintptr_t{low});
  Rank& rank = *world->ranks_[world->running_];
  world->outside_ = false;
  rank.body();
  world->outside_ = true;
  rank.returned = true;
  world->leave();
}

bool World::run(const std::function<void(int)>& body, double limit_s) {
  const auto self = reinterpret_cast<std::uintptr_t>(this);
  for (int rank = 0; rank < static_cast<int>(ranks_.size()); ++rank) {
    Rank& one = *ranks_[rank];
    one.body = [&body, rank] { body(rank); };
    one.stack.resize(stack_bytes);
    getcontext(&one.context);
    one.context.uc_stack = {one.stack.data(), 0, one.stack.size()};
    one.context.uc_link = &scheduler_;
    makecontext(&one.context, reinterpret_cast<void (*)()>(enter), 2,
                static_cast<unsigned>(self >> 32), static_cast<unsigned>(self));
  }
  bool all = false;
  while (!all && now_s_ < start_s + limit_s) {
    running_ = next();
    if (running_ < 0) {
      all = std::all_of(ranks_.begin(), ranks_.end(),
                        [](const auto& rank) { return rank->dead || rank->returned; });
      now_s_ += 1e-3;  // all that are left are stopped
      continue;
    }
    Rank& rank = *ranks_[running_];
    void* const exceptions = abi::__cxa_get_globals();
    std::memcpy(exceptions, rank.exceptions, sizeof rank.exceptions);
    swapcontext(&scheduler_, &rank.context);
  }
  running_ = -1;
  return all;
}

// Back to the scheduler, from the rank that runs. Exceptions being handled are the fiber's own.
void World::leave() {
  Rank& rank = *ranks_[running_];
  std::memcpy(rank.exceptions, abi::__cxa_get_globals(), sizeof rank.exceptions);
  swapcontext(&rank.context, &scheduler_);
}

bool World::runs(int rank) const {
  const Rank& one = *ranks_[rank];
  return !one.dead && !one.returned && one.stopped_until_s <= now_s_;
}

int World::next() {
  double total = 0;
  for (int rank = 0; rank < static_cast<int>(ranks_.size()); ++rank)
    if (runs(rank)) total += ranks_[rank]->weight;
  double left = total * part(random_);
  int last = -1;
  for (int rank = 0; rank < static_cast<int>(ranks_.size()); ++rank) {
    if (!runs(rank)) continue;
    last = rank;
    left -= ranks_[rank]->weight;
    if (left < 0) break;
  }
  return last;
}

void World::look(double longest_s) {
  now_s_ += longest_s * part(random_);
  ++looks_;
  for (std::size_t i = 0; i < planned_.size();) {
    if (planned_[i].first > looks_) {
      ++i;
      continue;
    }
    const auto what = std::move(planned_[i].second);
    planned_.erase(planned_.begin() + static_cast<std::ptrdiff_t>(i));
    what();
  }
  const Rank& rank = *ranks_[running_];
  if (rank.dead || rank.stopped_until_s > now_s_ || pick(random_, 0, 2) == 0) leave();
}

void World::die() {
  kill(running_);
  outside_ = true;
  leave();
}

void World::stop(int rank, double seconds) {
  ranks_[rank]->stopped_until_s = std::max(ranks_[rank]->stopped_until_s, now_s_ + seconds);
}

void World::exhaust(int rank, long after, long allocations) {
  ranks_[rank]->allocations_left = after;
  ranks_[rank]->failing_allocations = allocations;
}

bool World::fails() {
  if (outside_ || running_ < 0) return false;
  Rank& rank = *ranks_[running_];
  if (rank.failing_allocations == 0 || rank.allocations_left-- > 0) return false;
  --rank.failing_allocations;
  return true;
}

}  // namespace interleavings
}  // namespace patallreduce

void* operator new(std::size_t bytes) {
  using patallreduce::current;
  void* const memory = current && current->fails() ? nullptr : std::malloc(bytes);
  if (!memory) throw std::bad_alloc();
  return memory;
}

void operator delete(void* memory) noexcept { std::free(memory); }
void operator delete(void* memory, std::size_t) noexcept { std::free(memory); }
