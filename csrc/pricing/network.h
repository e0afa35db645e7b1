// What messages cost under three models of the literature, between ranks that need not be alike.
//
//   Hockney  latency + n / bandwidth                   pricing/link.h
//   LogGP    L + 2 o + (n - 1) G; a port sends again after max(g, o) + (n - 1) G
//   PLogP    L + g(n), with or(n) at its end; a port sends again after g(n)
//
//   source   Hockney, Parallel Computing 20 (1994), 389-398; Alexandrov, Ionescu, Schauser,
//            Scheiman, SPAA 1995; Kielmann, Bal, Verstoep, IPDPS 2000 workshops; all three as in
//            Pjesivac-Grbovic, PhD thesis, Tennessee (2007), section 4.2
#pragma once

#include <cstdint>
#include <utility>
#include <variant>
#include <vector>

#include "pricing/link.h"

namespace patallreduce::pricing {

// Seconds by message bytes, ascending; between two sizes linear, below the first as the first,
// beyond the last as between the last two.
using SizeTable = std::vector<std::pair<double, double>>;

struct LogGP {
  double latency_s;       // L: of the network alone
  double overhead_s;      // o: a processor is busy with sending or receiving a message
  double gap_s;           // g: from the end of a message to the next in one port
  double gap_per_byte_s;  // G
  double reduce_bytes_per_s = 5e9;
};

struct PLogP {
  double latency_s;                               // L: from end to end, without the message's gap
  SizeTable gap_s;                                // g(n)
  SizeTable send_overhead_s, receive_overhead_s;  // os(n), or(n): at most g(n)
  double reduce_bytes_per_s = 5e9;
};

using Model = std::variant<Link, LogGP, PLogP>;

// Of one message. Both ports are busy from its start for before_s + transfer_s.
struct Cost {
  double before_s;
  double transfer_s;
  double after_s;       // until it is there; negative where the ports rest longer than it travels
  double send_s;        // of the sender's processor, from the start on
  double receive_s;     // of the receiver's processor, once it is there
  double change_s = 0;  // after before_s, until either port can begin with another partner
};

Cost cost(const Model& model, double message_bytes);
double reduce_bytes_per_s(const Model& model);
// No message of at least so many bytes is there earlier after its start; >= 0.
double least_flight_s(const Model& model, double message_bytes);

// A message between two ranks takes the slower of both models, part by part; overheads are those
// of the rank that has them. Between two nodes it also goes through the sending node's uplink and
// the receiving node's, which work in both directions at once.
struct Network {
  std::vector<Model> models;               // at least one
  std::vector<std::int32_t> model_of;      // per rank; empty: the first for all
  std::vector<std::int32_t> node_of;       // per rank; empty: no two ranks share a node
  std::int32_t within_node = -1;           // model between ranks of one node; -1: the ranks' own
  std::vector<double> uplink_bytes_per_s;  // by node, each direction; empty: no limit
  // Messages of different pairs of ranks share the ports, or uplinks, that they have in common
  // (pricing/flows.h) rather than take turns in them.
  bool shared_ports = false;
  // What a port that has rested lets through at once, as the first model prices it. 0: as that
  // model has it.
  double burst_bytes = 0;
  // After its arrival a rank's processor works so long before its first step.
  double call_s = 0;
  // Without, a message to a rank leaves no earlier than that rank arrives (rendezvous).
  bool posted_before_arrival = true;

  const Model& of(std::int32_t rank) const {
    return models[model_of.empty() ? 0 : static_cast<std::size_t>(model_of[rank])];
  }
  bool same_node(std::int32_t a, std::int32_t b) const {
    return !node_of.empty() && node_of[a] == node_of[b];
  }
  bool has_uplinks() const { return !node_of.empty() && !uplink_bytes_per_s.empty(); }
};

Cost cost(const Network& network, std::int32_t from, std::int32_t to, double message_bytes);

// How long a message to another node takes at one end: through the uplink of the rank's node, and
// through the slower of that and the rank's port.
double uplink_s(const Network& network, std::int32_t rank, double message_bytes);
double port_s(const Network& network, std::int32_t rank, double message_bytes);

// Of the first model: how long its port takes for what it lets through at once, and its partners;
// how many processors move all messages, or 0.
double burst_s(const Network& network);
double partners(const Network& network);
int processors(const Network& network);

// Throws ScheduleError, naming the field, for what makes no sense with so many ranks.
void check(const Network& network, int ranks);

}  // namespace patallreduce::pricing
