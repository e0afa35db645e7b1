// A test program of the core without Python, for the sanitizers: `make sanitize`.
//
// A test is a function; main.cpp lists them. Random choices come from one seed, printed on failure.
#pragma once

#include <functional>
#include <memory>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "executor/engine.h"
#include "transport/loopback.h"

namespace patallreduce::native {

using executor::Call;
using executor::Engine;
using executor::Ticket;
using reduction::Dtype;
using reduction::Op;
using schedule::ScheduleKey;
using transport::LoopbackHub;
using transport::Transport;

using Random = std::mt19937_64;

inline int pick(Random& random, int first, int last) {
  return std::uniform_int_distribution<int>(first, last)(random);
}

[[noreturn]] void failed(const char* file, int line, const std::string& what);

// Sleeps at random, at most `longest_us`.
void pause(Random& random, int longest_us);

// Of 4 ranks: a schedule in 4 segments that no algorithm makes.
ScheduleKey given_by_hand(int rank);
// Any algorithm of the book, with hints of arrivals or without, or given_by_hand(): on all ranks
// alike, if drawn from equal states. rooted: reduces and broadcasts, too.
ScheduleKey random_key(Random& random, int ranks, int rank, int most_segments, bool rooted);

// Runs `body(rank)` in a thread per rank.
void each_rank(int ranks, const std::function<void(int)>& body);

// With little scratch several in flight wait for each other to be admitted.
constexpr std::size_t little_scratch_bytes = 1 << 20;

// Engines started over `transports`, or over a hub of their own.
std::vector<std::unique_ptr<Engine>> engines_over(
    const std::vector<std::shared_ptr<Transport>>& transports,
    std::size_t scratch_bytes = little_scratch_bytes);
std::vector<std::unique_ptr<Engine>> loopback_engines(
    int ranks, std::shared_ptr<LoopbackHub> hub, std::size_t scratch_bytes = little_scratch_bytes);

Call call_of(std::uint64_t count, const std::string& algorithm, int segments,
             Dtype dtype = Dtype::float32, Op op = Op::sum);

// 4 bytes per element, whichever the type.
using Values = std::vector<float>;

// One of every kind; its contribution, and a look at its result.
Call random_call(Random& random, int ranks, int rank, int largest_count);
void fill(Values& values, const Call& call, int rank);
void check(const Values& values, const Call& call, int ranks, int rank);

// Drives until done; fails after a minute.
void wait(Engine& engine, const Ticket& ticket);

// Random collectives with sums checked, several in flight, over any engines.
void random_collectives(std::vector<std::unique_ptr<Engine>>& engines, Random& random, int calls,
                        int largest_count);

void test_control(Random& random);
void test_places(Random& random);
void test_watch(Random& random);
void test_ports(Random& random);
void test_reports(Random& random);
void test_schedules(Random& random);
void test_monitors(Random& random);
void test_failures(Random& random);
void test_ahead(Random& random);
void test_staging(Random& random);
void test_streams(Random& random);
void test_ucx(Random& random, const std::string& libucp);
// UCX's only if its library is given.
void test_descriptors(Random& random, const std::string& libucp);
void test_keyed_tags(Random& random);
void test_strangers(Random& random, const std::string& libucp);

}  // namespace patallreduce::native

#define CHECK(condition) \
  if (!(condition)) ::patallreduce::native::failed(__FILE__, __LINE__, #condition)
