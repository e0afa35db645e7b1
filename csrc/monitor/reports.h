// What a rank's monitor tells the leader of an iteration, and the other messages between monitors.
//
// Times are seconds on the leader's clock. A loop is one series of iterations: a model's, or the
// collectives outside DDP.
#pragma once

#include <cstdint>
#include <string>
#include <variant>
#include <vector>

#include "monitor/host.h"
#include "schedule/plan.h"

namespace patallreduce::monitor {

using schedule::Plan;

struct IterationId {  // of what a report speaks
  std::int64_t loop = 0;
  std::int64_t iteration = 0;
};

struct Started {
  IterationId id;
  double at_s;
  std::vector<double> finish_s;  // of the iteration before, per bucket; empty: unknown
};

struct EdgeReached {
  IterationId id;
  double fraction;
  double at_s;
};

// The first planned bucket of the iteration is ready: this rank wants the plan now.
struct Asked {
  IterationId id;
  double at_s;
};

struct BucketSize {
  std::uint64_t elements = 0;
  std::uint32_t element_bytes = 0;
  // What runs unless a plan says otherwise; for the rank's own records, not sent.
  std::string algorithm = {};
  int segments = 0;
};

// The last bucket was handed over.
struct Arrived {
  IterationId id;
  std::vector<double> arrivals_s;  // per bucket: when it was ready
  std::vector<BucketSize> sizes;   // per bucket
};

// Rarely: it travels with the iteration's start.
struct HostUsed {
  IterationId id;
  Host host;
};

// What a rank sent to another one.
struct Flow {
  int to = 0;
  double bytes = 0;
  double busy_s = 0;  // how long it took
};

// The larger flows of the iterations from `since` to before this one; travels with its start.
struct LinkUsed {
  IterationId id;
  std::int64_t since = 0;
  std::vector<Flow> flows;
};

using Report = std::variant<Started, EdgeReached, Asked, Arrived, HostUsed, LinkUsed>;

inline const IterationId& id_of(const Report& report) {
  return std::visit([](const auto& r) -> const IterationId& { return r.id; }, report);
}

struct Ping {
  double sent_s;  // the sender's clock
};
struct Pong {
  double sent_s;    // of the ping
  double leader_s;  // when it came, on the leader's clock
};

using MonitorMessage = std::variant<Report, Ping, Pong, Plan>;

std::string encode(const MonitorMessage& message);
// One or several, encoded one behind the other. Nothing if the bytes are malformed: a monitor
// ignores them.
std::vector<MonitorMessage> decode_monitor_messages(const std::string& bytes, int ranks);

}  // namespace patallreduce::monitor
