// Ranks as threads, and collectives whose results can be checked.
#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstring>

#include "algorithms/internal_keys.h"
#include "algorithms/registry.h"
#include "algorithms/resolve.h"
#include "check.h"
#include "transport/loopback.h"

namespace patallreduce::native {

using algorithms::Algorithm;
using algorithms::barrier_key;
using algorithms::collective_of;
using algorithms::is_dynamic;
using algorithms::steps_of;
using executor::Call;
using executor::Engine;
using executor::EngineOptions;
using executor::given_key;
using executor::Ticket;
using reduction::Dtype;
using reduction::Op;
using reduction::op_count;
using schedule::Schedule;
using schedule::ScheduleKey;
using schedule::Verb;
using transport::Loopback;
using transport::LoopbackHub;
using transport::Transport;

namespace {

// Recursive halving and doubling among 4 ranks: the second half of the doubling sends two segments
// whose values lie in different pieces of memory, which no algorithm of the registry does.
Schedule halving_doubling() {
  Schedule schedule;
  schedule.algorithm = "halving_doubling";
  schedule.problem.ranks = schedule.problem.segments = 4;
  for (int rank = 0; rank < 4; ++rank) {
    const int far = rank ^ 2, near = rank ^ 1;
    const int half = rank & 2;                    // the segments [half, half + 2) stay here,
    const int other_half = half ^ 2, own = rank;  // and of those `own`
    const int given = own ^ 1;
    schedule.steps.push_back({
        {Verb::send, far, other_half, other_half + 2},
        {Verb::recv_reduce, far, half, half + 2},
        {Verb::send, near, given, given + 1},
        {Verb::recv_reduce, near, own, own + 1},
        {Verb::send, near, own, own + 1},
        {Verb::recv, near, given, given + 1},
        {Verb::send, far, half, half + 2},
        {Verb::recv, far, other_half, other_half + 2},
    });
  }
  return schedule;
}

std::vector<const Algorithm*> algorithms_to_run(bool rooted) {
  std::vector<const Algorithm*> found;
  for (const Algorithm& algorithm : algorithms::algorithms()) {
    const std::string collective = algorithm.collective;
    const bool has_root = collective == "reduce" || collective == "broadcast";
    if (collective == "all_reduce" || (rooted && has_root)) found.push_back(&algorithm);
  }
  return found;
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

void check(const Values& values, const Call& call, int ranks, int rank) {
  const std::string collective = collective_of(call.key);
  for (std::uint64_t i = 0; i < call.count; ++i) {
    double right = expected(call, ranks, i);
    if (collective == "broadcast") right = value(call.key.root, i);
    if (collective == "reduce" && rank != call.key.root) right = value(rank, i);  // as it was
    std::int32_t integer;
    std::memcpy(&integer, &values[i], sizeof integer);
    const double got = call.dtype == Dtype::int32 ? integer : values[i];
    CHECK(std::abs(got - right) < 1e-5);
  }
}

ScheduleKey given_by_hand(int rank) { return given_key(halving_doubling(), 4, rank); }

ScheduleKey random_key(Random& random, int ranks, int rank, int most_segments, bool rooted) {
  const auto all = algorithms_to_run(rooted);
  const int choice = pick(random, ranks == 4 ? -1 : 0, static_cast<int>(all.size()) - 1);
  if (choice < 0) return given_by_hand(rank);
  ScheduleKey key{all[choice]->name, pick(random, 1, std::max(1, std::min(20, most_segments)))};
  if (pick(random, 0, 1))
    for (int r = 0; r < ranks; ++r) key.arrivals_s.push_back(pick(random, 0, 5) * 1e-3);
  if (all[choice]->times && pick(random, 0, 1)) {
    key.segment_time_s = 1e-3;
    key.latency_s = 2e-4;
    key.sum_s = 1e-4;
  }
  if (all[choice]->collective != std::string("all_reduce")) key.root = pick(random, 0, ranks - 1);
  return key;
}

Call random_call(Random& random, int ranks, int rank, int largest_count) {
  const int counts[] = {pick(random, 0, 9), pick(random, 10, 2000), pick(random, 1, largest_count)};
  Call call;
  call.count = counts[pick(random, 0, 2)];
  call.key = random_key(random, ranks, rank, static_cast<int>(call.count), true);
  call.dtype = pick(random, 0, 1) ? Dtype::float32 : Dtype::int32;
  call.op = static_cast<Op>(pick(random, 0, op_count - 1));
  if (collective_of(call.key) == "broadcast") call.op = Op::sum;
  return call;
}

void pause(Random& random, int longest_us) {
  std::this_thread::sleep_for(std::chrono::microseconds(pick(random, 0, longest_us)));
}

void each_rank(int ranks, const std::function<void(int)>& body) {
  std::vector<std::thread> threads;
  for (int rank = 0; rank < ranks; ++rank) threads.emplace_back(body, rank);
  for (std::thread& thread : threads) thread.join();
}

std::vector<std::unique_ptr<Engine>> engines_over(
    const std::vector<std::shared_ptr<Transport>>& transports, std::size_t scratch_bytes) {
  std::vector<std::unique_ptr<Engine>> engines;
  for (const auto& transport : transports)
    engines.push_back(std::make_unique<Engine>(
        transport,
        EngineOptions{
            20e-6, true, scratch_bytes, {steps_of, is_dynamic, collective_of}, barrier_key()}));
  each_rank(static_cast<int>(engines.size()), [&](int rank) { engines[rank]->start(30); });
  return engines;
}

std::vector<std::unique_ptr<Engine>> loopback_engines(int ranks, std::shared_ptr<LoopbackHub> hub,
                                                      std::size_t scratch_bytes) {
  if (!hub) hub = std::make_shared<LoopbackHub>(ranks);
  std::vector<std::shared_ptr<Transport>> transports;
  for (int rank = 0; rank < ranks; ++rank)
    transports.push_back(std::make_shared<Loopback>(hub, rank));
  return engines_over(transports, scratch_bytes);
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
  const bool awaited = pick(random, 0, 1);  // by another thread, which next_done() tells
  const unsigned long seed = random();
  each_rank(ranks, [&](int rank) {
    Random alike(seed), own(seed + 1 + static_cast<unsigned long>(rank));
    std::vector<Call> list;
    for (int i = 0; i < calls; ++i) list.push_back(random_call(alike, ranks, rank, largest_count));
    Engine& engine = *engines[rank];
    std::vector<Values> values;
    std::vector<std::shared_ptr<Ticket>> tickets;
    for (const Call& call : list) {
      values.emplace_back(std::max<std::size_t>(call.count, 1));
      fill(values.back(), call, rank);
      pause(own, 2000);
      tickets.push_back(awaited ? engine.submit(values.back().data(), call, 60)
                                : engine.begin(values.back().data(), call, 60));
      if (awaited) engine.expect(tickets.back());
      if (!awaited && pick(own, 0, 2) == 0) wait(engine, *tickets.back());
    }
    if (awaited)
      for (int i = 0; i < calls; ++i) CHECK(engine.next_done(60) != nullptr);
    for (int i = 0; i < calls; ++i) {
      if (!awaited) wait(engine, *tickets[i]);
      CHECK(tickets[i]->done);
      if (tickets[i]->failure) failed(__FILE__, __LINE__, tickets[i]->failure->what);
      check(values[i], list[i], ranks, rank);
    }
  });
}

}  // namespace patallreduce::native
