// Ranks as threads, and collectives whose results can be checked.
#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstring>

#include "algorithms/registry.h"
#include "check.h"
#include "transport/loopback.h"

namespace patallreduce::native {

using algorithms::Algorithm;
using algorithms::find_algorithm;
using algorithms::generate_steps;
using algorithms::known_algorithm;
using executor::Call;
using executor::Engine;
using executor::EngineOptions;
using executor::Ticket;
using reduction::Dtype;
using reduction::Op;
using reduction::op_count;
using schedule::Problem;
using schedule::ScheduleKey;
using schedule::Steps;
using schedule::Verb;
using transport::Loopback;
using transport::LoopbackHub;
using transport::Transport;

namespace {

// Recursive halving and doubling among 4 ranks: the second half of the doubling sends two segments
// whose values lie in different pieces of memory, which no algorithm of the registry does.
Steps halving_doubling(int rank) {
  const int far = rank ^ 2, near = rank ^ 1;
  const int half = rank & 2;                    // the segments [half, half + 2) stay here,
  const int other_half = half ^ 2, own = rank;  // and of those `own`
  const int given = own ^ 1;
  return {
      {Verb::send, far, other_half, other_half + 2},
      {Verb::recv_reduce, far, half, half + 2},
      {Verb::send, near, given, given + 1},
      {Verb::recv_reduce, near, own, own + 1},
      {Verb::send, near, own, own + 1},
      {Verb::recv, near, given, given + 1},
      {Verb::send, far, half, half + 2},
      {Verb::recv, far, other_half, other_half + 2},
  };
}

// Values small enough for every sum and product of 5 ranks to be exact in float32 and int32.
double value(int rank, std::uint64_t i) { return 1 + static_cast<double>((rank + i) % 3); }

double expected(const Call& call, int ranks, std::uint64_t i) {
  double result = value(0, i);
  for (int rank = 1; rank < ranks; ++rank) {
    const double next = value(rank, i);
    if (call.op == Op::sum || call.op == Op::avg) result += next;
    if (call.op == Op::prod) result *= next;
    if (call.op == Op::min) result = std::min(result, next);
    if (call.op == Op::max) result = std::max(result, next);
  }
  if (call.op == Op::avg) result /= ranks;
  return call.dtype == Dtype::int32 ? std::trunc(result) : result;
}

}  // namespace

void fill(Values& values, const Call& call, int rank) {
  for (std::uint64_t i = 0; i < call.count; ++i) {
    const double x = value(rank, i);
    const auto integer = static_cast<std::int32_t>(x);
    if (call.dtype == Dtype::int32)
      std::memcpy(&values[i], &integer, sizeof integer);
    else
      values[i] = static_cast<float>(x);
  }
}

void check(const Values& values, const Call& call, int ranks) {
  for (std::uint64_t i = 0; i < call.count; ++i) {
    std::int32_t integer;
    std::memcpy(&integer, &values[i], sizeof integer);
    const double got = call.dtype == Dtype::int32 ? integer : values[i];
    CHECK(std::abs(got - expected(call, ranks, i)) < 1e-5);
  }
}

Call random_call(Random& random, int ranks, int largest_count) {
  static const char* const names[] = {"ring", "slt", "prr", "slt_dynamic", "halving_doubling"};
  const int choice = pick(random, 0, ranks == 4 ? 4 : 3);
  const int counts[] = {pick(random, 0, 9), pick(random, 10, 2000), pick(random, 1, largest_count)};
  Call call = call_of(counts[pick(random, 0, 2)], names[choice], 4);
  if (choice < 4)
    call.key.segments = pick(random, 1, std::max<int>(1, std::min<int>(20, call.count)));
  if (choice == 2) call.key.segment_time_s = 1e-3;
  if (choice < 3 && pick(random, 0, 1))
    for (int rank = 0; rank < ranks; ++rank)
      call.key.arrivals_s.push_back(pick(random, 0, 5) * 1e-3);
  call.dtype = pick(random, 0, 1) ? Dtype::float32 : Dtype::int32;
  call.op = static_cast<Op>(pick(random, 0, op_count - 1));
  return call;
}

void pause(Random& random, int longest_us) {
  std::this_thread::sleep_for(std::chrono::microseconds(pick(random, 0, longest_us)));
}

Steps steps_of(const ScheduleKey& key, int ranks, int rank) {
  if (key.algorithm == "halving_doubling") return halving_doubling(rank);
  Problem problem;
  problem.ranks = ranks;
  problem.segments = key.segments;
  if (!find_algorithm(key.algorithm).dynamic) problem.arrivals_s = key.arrivals_s;
  problem.segment_time_s = key.segment_time_s;
  return generate_steps(key.algorithm, problem, rank);
}

bool is_dynamic(const ScheduleKey& key) {
  const Algorithm* algorithm = known_algorithm(key.algorithm);
  return algorithm && algorithm->dynamic;
}

namespace {

std::string collective_of(const ScheduleKey& key) {
  const Algorithm* algorithm = known_algorithm(key.algorithm);
  return algorithm ? algorithm->collective : "all_reduce";
}

}  // namespace

void each_rank(int ranks, const std::function<void(int)>& body) {
  std::vector<std::thread> threads;
  for (int rank = 0; rank < ranks; ++rank) threads.emplace_back(body, rank);
  for (std::thread& thread : threads) thread.join();
}

std::vector<std::unique_ptr<Engine>> engines_over(
    const std::vector<std::shared_ptr<Transport>>& transports) {
  std::vector<std::unique_ptr<Engine>> engines;
  // Little scratch: several in flight then wait for each other to be admitted.
  for (const auto& transport : transports)
    engines.push_back(
        std::make_unique<Engine>(transport, EngineOptions{20e-6,
                                                          true,
                                                          1 << 20,
                                                          {steps_of, is_dynamic, collective_of},
                                                          {"dissemination_barrier", 1}}));
  each_rank(static_cast<int>(engines.size()), [&](int rank) { engines[rank]->start(30); });
  return engines;
}

std::vector<std::unique_ptr<Engine>> loopback_engines(int ranks, std::shared_ptr<LoopbackHub> hub) {
  if (!hub) hub = std::make_shared<LoopbackHub>(ranks);
  std::vector<std::shared_ptr<Transport>> transports;
  for (int rank = 0; rank < ranks; ++rank)
    transports.push_back(std::make_shared<Loopback>(hub, rank));
  return engines_over(transports);
}

Call call_of(std::uint64_t count, const std::string& algorithm, int segments, Dtype dtype, Op op) {
  Call call;
  call.count = count;
  call.dtype = dtype;
  call.op = op;
  call.key.algorithm = algorithm;
  call.key.segments = segments;
  return call;
}

void wait(Engine& engine, const Ticket& ticket) {
  for (int i = 0; i < 600; ++i)
    if (engine.wait(ticket, 0.1)) return;
  CHECK(!"a collective did not end within a minute");
}

void random_collectives(std::vector<std::unique_ptr<Engine>>& engines, Random& random, int calls,
                        int largest_count) {
  const int ranks = static_cast<int>(engines.size());
  std::vector<Call> list;
  for (int i = 0; i < calls; ++i) list.push_back(random_call(random, ranks, largest_count));
  const bool queued = pick(random, 0, 1);  // completed by another thread, or by waiting
  const unsigned long seed = random();
  each_rank(ranks, [&](int rank) {
    Random own(seed + static_cast<unsigned long>(rank));
    Engine& engine = *engines[rank];
    std::vector<Values> values;
    std::vector<std::shared_ptr<Ticket>> tickets;
    for (const Call& call : list) {
      values.emplace_back(std::max<std::size_t>(call.count, 1));
      fill(values.back(), call, rank);
      pause(own, 2000);
      tickets.push_back(queued ? engine.submit_queued(values.back().data(), call, 60)
                               : engine.submit(values.back().data(), call, 60));
      if (!queued && pick(own, 0, 2) == 0) wait(engine, *tickets.back());
    }
    if (queued)
      for (int i = 0; i < calls; ++i) CHECK(engine.next_done(60) != nullptr);
    for (int i = 0; i < calls; ++i) {
      if (!queued) wait(engine, *tickets[i]);
      CHECK(tickets[i]->done);
      if (tickets[i]->failure) failed(__FILE__, __LINE__, tickets[i]->failure->what);
      check(values[i], list[i], ranks);
    }
  });
}

}  // namespace patallreduce::native
