// The bytes between monitors: what is encoded comes back; mutated and random bytes never do harm.
#include "monitor/reports.h"

#include <cmath>
#include <limits>

#include "check.h"

namespace patallreduce::native {

using monitor::Arrived;
using monitor::Asked;
using monitor::decode_monitor_messages;
using monitor::EdgeReached;
using monitor::Flow;
using monitor::HostUsed;
using monitor::IterationId;
using monitor::LinkUsed;
using monitor::MonitorMessage;
using monitor::Ping;
using monitor::Pong;
using monitor::Report;
using monitor::Started;
using schedule::Plan;
using schedule::PlannedBucket;
using schedule::ScheduleKey;

namespace {

constexpr int ranks = 4;

double any_time(Random& random) {
  static const double odd[] = {0, -1, 1e300, std::numeric_limits<double>::infinity(),
                               std::numeric_limits<double>::quiet_NaN()};
  return pick(random, 0, 3) ? pick(random, 0, 1 << 20) / 1024.0 : odd[pick(random, 0, 4)];
}

std::vector<double> any_times(Random& random) {
  std::vector<double> times(pick(random, 0, 5));
  for (double& at_s : times) at_s = any_time(random);
  return times;
}

std::vector<Flow> any_flows(Random& random) {
  std::vector<Flow> flows(pick(random, 0, 5));
  for (Flow& flow : flows) flow = {pick(random, 0, ranks - 1), any_time(random), any_time(random)};
  return flows;
}

std::vector<MonitorMessage> samples(Random& random) {
  const IterationId id{pick(random, 0, 9), pick(random, 0, 1 << 30)};
  Arrived arrived{id, any_times(random), {}};
  for (int left = pick(random, 0, 4); left > 0; --left)
    arrived.sizes.push_back({random() >> 20, static_cast<std::uint32_t>(pick(random, 0, 8))});
  Plan plan{id.loop, id.iteration, {}};
  for (int left = pick(random, 0, 4); left > 0; --left) {
    ScheduleKey key{"slt", pick(random, 1, 500), {}, 0};
    if (pick(random, 0, 1)) key.arrivals_s = {0, pick(random, 0, 1) ? 0.25 : 1.0, 3, 2};
    if (pick(random, 0, 1)) key.node_of = {0, pick(random, 0, 1), 1, 0};
    if (pick(random, 0, 1)) key.ports = {1000, pick(random, 1, 2), 1, 65535};
    plan.buckets.push_back({random() >> 30, 4, key});
  }
  return {Report{Started{id, any_time(random), any_times(random)}},
          Report{EdgeReached{id, any_time(random), any_time(random)}},
          Report{Asked{id, any_time(random)}},
          Report{arrived},
          Report{HostUsed{
              id, {any_time(random), any_time(random), any_time(random), any_time(random)}}},
          Report{LinkUsed{id, pick(random, 0, 99), any_flows(random)}},
          Ping{any_time(random)},
          Pong{any_time(random), any_time(random)},
          plan};
}

void check(const MonitorMessage& message) {
  if (const auto* report = std::get_if<Report>(&message))
    if (const auto* used = std::get_if<LinkUsed>(report))
      for (const Flow& flow : used->flows) CHECK(flow.to >= 0 && flow.to < ranks);
  if (const auto* plan = std::get_if<Plan>(&message)) {
    CHECK(plan->loop >= 0 && plan->iteration >= 0);
    for (const PlannedBucket& bucket : plan->buckets) {
      CHECK(bucket.key.segments >= 1 && bucket.key.segments < 1 << 18);
      CHECK(bucket.key.arrivals_s.empty() || bucket.key.arrivals_s.size() == ranks);
      for (const double arrival_s : bucket.key.arrivals_s)
        CHECK(std::isfinite(arrival_s) && arrival_s >= 0);
      CHECK(bucket.key.node_of.empty() || bucket.key.node_of.size() == ranks);
      for (const std::int32_t node : bucket.key.node_of) CHECK(node >= 0 && node < ranks);
      CHECK(bucket.key.ports.empty() || bucket.key.ports.size() == ranks);
      for (const std::int32_t port : bucket.key.ports) CHECK(port >= 1 && port <= 65535);
    }
  }
}

// Accepted is only what this library would have written itself.
bool accepted(const std::string& bytes) {
  const auto messages = decode_monitor_messages(bytes, ranks);
  std::size_t written = 0;
  for (const MonitorMessage& message : messages) {
    written += encode(message).size();
    check(message);
  }
  CHECK(messages.empty() || written == bytes.size());
  return !messages.empty();
}

}  // namespace

void test_reports(Random& random) {
  int mutants = 0;
  for (int i = 0; i < 1500; ++i) {
    std::string all;
    for (const MonitorMessage& message : samples(random)) {
      const std::string bytes = encode(message);
      const auto back = decode_monitor_messages(bytes, ranks);
      CHECK(back.size() == 1 && back[0].index() == message.index() && encode(back[0]) == bytes);
      all += bytes;
      CHECK(accepted(all));
      CHECK(!accepted(all.substr(0, all.size() - 1)));
      CHECK(!accepted(bytes + static_cast<char>(random())));  // rubbish behind it
      for (std::size_t left = 0; left < bytes.size(); left += pick(random, 1, 9))
        CHECK(!accepted(bytes.substr(0, left)));
      std::string mutant = bytes;
      for (int changes = pick(random, 1, 4); changes > 0; --changes)
        mutant[random() % mutant.size()] = static_cast<char>(random());
      mutants += accepted(mutant);
    }
    std::string noise(pick(random, 0, 200), '\0');
    for (char& byte : noise) byte = static_cast<char>(random());
    if (!noise.empty()) noise[0] = static_cast<char>(pick(random, 0, 9));
    accepted(noise);
  }
  CHECK(mutants > 0);
  // What buckets have in common is written once: plans of many buckets have room in a message.
  ScheduleKey key{"slt", 8, {3, 1, 0, 2}, 0};
  key.node_of = {0, 0, 1, 1};
  Plan plan{1, 1, std::vector<PlannedBucket>(1000, {1 << 20, 4, key})};
  CHECK(monitor::encode(plan).size() < 1000 * 56);
  // A count of more buckets than any model has is refused before memory is asked for.
  std::string huge = encode(Report{Arrived{{1, 1}, {}, {}}});
  huge[17] = huge[18] = huge[19] = huge[20] = '\x7f';
  CHECK(decode_monitor_messages(huge, ranks).empty());
}

}  // namespace patallreduce::native
