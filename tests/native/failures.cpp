// Ways to end badly, at random times: every ticket ends, with the same error on every rank.
#include "check.h"

namespace patallreduce::native {

using executor::Call;
using executor::Engine;
using executor::Failure;
using executor::Kind;
using executor::Ticket;
using transport::LoopbackHub;

namespace {

constexpr int ranks = 4;
using Engines = std::vector<std::unique_ptr<Engine>>;

// Collectives on every rank until `disturb` makes them fail.
void until_failure(Engines& engines, Random& random, Kind kind, int named,
                   const std::function<void()>& disturb) {
  const unsigned long seed = random();
  std::thread disturber(disturb);
  std::vector<Failure> failures(ranks);
  each_rank(ranks, [&](int rank) {
    Random own(seed + static_cast<unsigned long>(rank));
    const auto expected = [&](const Failure& failure) {
      const bool itself = kind == Kind::lost && rank == named;
      return failure.kind == (itself ? Kind::transport : kind) && failure.rank == named;
    };
    std::vector<std::vector<float>> values;
    std::vector<std::shared_ptr<Ticket>> tickets;
    for (int i = 0;; ++i) {
      values.emplace_back(50000);
      tickets.push_back(
          engines[rank]->submit(values.back().data(), call_of(50000, "ring", 16), 60));
      pause(own, 1000);
      if (i < 3) continue;  // several in flight
      wait(*engines[rank], *tickets[i - 3]);
      if (tickets[i - 3]->failure) break;
    }
    for (const auto& ticket : tickets) {
      wait(*engines[rank], *ticket);
      if (ticket->failure && !expected(*ticket->failure))
        failed(__FILE__, __LINE__, ticket->failure->what);
    }
    const auto failure = engines[rank]->failure();
    CHECK(failure && expected(*failure));
    failures[rank] = *failure;
    for (std::size_t i = 0; i < failure->completed; ++i) CHECK(!tickets[i]->failure);
    engines[rank]->close(1);
    engines[rank]->close(1);
  });
  disturber.join();
  const auto first = failures.begin() + (kind == Kind::lost && named == 0 ? 1 : 0);
  for (int rank = 0; rank < ranks; ++rank) {
    if (kind == Kind::lost && rank == named) continue;
    CHECK(failures[rank].what == first->what && failures[rank].completed == first->completed);
  }
}

void lost(Random& random) {
  const int victim = pick(random, 0, ranks - 1);
  auto hub = std::make_shared<LoopbackHub>(ranks);
  auto engines = loopback_engines(ranks, hub);
  Random own(random());
  until_failure(engines, random, Kind::lost, victim, [&] {
    pause(own, 20000);
    hub->lose(victim);
    // Nobody tells the dead; here it lives on, and is ended once the others have seen it die.
    for (int rank = 0; rank < ranks; ++rank)
      while (rank != victim && !engines[rank]->failure()) pause(own, 1000);
    engines[victim]->abort("lost by the test");
  });
}

void aborted(Random& random) {
  const int victim = pick(random, 0, ranks - 1);
  auto engines = loopback_engines(ranks, nullptr);
  Random own(random());
  until_failure(engines, random, Kind::transport, victim, [&] {
    pause(own, 20000);
    engines[victim]->abort("by the test");
  });
}

void late(Random& random) {
  const int victim = pick(random, 0, ranks - 1);
  auto engines = loopback_engines(ranks, nullptr);
  // It stays until the others gave up: a rank that closes is lost, not late.
  const unsigned long seed = random();
  each_rank(ranks, [&](int rank) {
    Random own(seed + static_cast<unsigned long>(rank));
    if (rank == victim) {
      while (!engines[rank]->failure()) pause(own, 10000);
    } else {
      std::vector<float> values(1000);
      pause(own, 5000);
      const auto ticket = engines[rank]->submit(values.data(), call_of(1000, "slt", 3), 0.5);
      wait(*engines[rank], *ticket);
      CHECK(ticket->failure);
    }
    const auto failure = engines[rank]->failure();
    CHECK(failure->kind == Kind::timeout && failure->rank == victim);
    engines[rank]->close(1);
  });
}

void mismatched(Random& random) {
  const int victim = pick(random, 0, ranks - 1);
  auto engines = loopback_engines(ranks, nullptr);
  const int from = pick(random, 0, 5);
  const std::vector<Call> right{call_of(20000, "ring", 8), call_of(20000, "slt_dynamic", 3)};
  const std::vector<Call> wrong{call_of(20001, "ring", 8), call_of(20001, "slt_dynamic", 3),
                                call_of(20000, "slt", 8)};
  const auto usual = std::size_t(pick(random, 0, 1));
  const auto other = std::size_t(pick(random, 0, 4));
  std::vector<Failure> failures(ranks);
  each_rank(ranks, [&](int rank) {
    for (int i = 0;; ++i) {
      std::vector<float> values(20001);
      const bool errs = rank == victim && i >= from;
      const Call& call = !errs ? right[usual] : other < 3 ? wrong[other] : right[1 - usual];
      const auto ticket = engines[rank]->submit(values.data(), call, 60);
      wait(*engines[rank], *ticket);
      if (!ticket->failure) continue;
      // Or the one before: the others may be done with that and abort while this rank is not.
      CHECK(i + 1 >= from && ticket->failure->kind == Kind::mismatch);
      failures[rank] = *ticket->failure;
      CHECK(failures[rank].completed <= std::uint64_t(i));
      break;
    }
    engines[rank]->close(1);
  });
  for (const Failure& failure : failures)
    CHECK(failure.what == failures[0].what && failure.completed == failures[0].completed);
}

// Closing with collectives submitted: they end, and nobody waits for ever.
void closed(Random& random) {
  auto engines = loopback_engines(ranks, nullptr);
  const unsigned long seed = random();
  each_rank(ranks, [&](int rank) {
    Random own(seed + static_cast<unsigned long>(rank));
    std::vector<std::vector<float>> values(6, std::vector<float>(30000));
    std::vector<std::shared_ptr<Ticket>> tickets;
    for (auto& message : values)
      tickets.push_back(engines[rank]->submit(message.data(), call_of(30000, "prr", 8), 60));
    for (const auto& ticket : tickets) engines[rank]->expect(ticket);
    std::thread waiter([&] {
      for (const auto& ticket : tickets) wait(*engines[rank], *ticket);
    });
    pause(own, 3000);
    engines[rank]->close(30);
    for (const auto& ticket : tickets) CHECK(ticket->done && !ticket->failure);
    waiter.join();
    for (const auto& ticket : tickets) CHECK(engines[rank]->next_done(0) != nullptr);
    const auto after = engines[rank]->submit(values[0].data(), call_of(30000, "prr", 8), 60);
    CHECK(after->done && after->failure);
  });
}

}  // namespace

void test_failures(Random& random) {
  for (int i = 0; i < 5; ++i) {
    for (const auto& test : {lost, aborted, mismatched, closed}) test(random);
  }
  late(random);
}

}  // namespace patallreduce::native
