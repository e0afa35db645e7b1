#include "pricing/network.h"

#include <algorithm>
#include <cmath>

#include "errors.h"

namespace patallreduce::pricing {

namespace {

double look_up(const SizeTable& table, double bytes) {
  if (table.size() == 1 || bytes <= table.front().first) return table.front().second;
  auto after = std::lower_bound(
      table.begin(), table.end(), bytes,
      [](const std::pair<double, double>& entry, double wanted) { return entry.first < wanted; });
  if (after == table.end()) --after;
  const auto [low_bytes, low_s] = *(after - 1);
  const auto [high_bytes, high_s] = *after;
  return low_s + (high_s - low_s) * (bytes - low_bytes) / (high_bytes - low_bytes);
}

Cost cost_of(const Link& link, double bytes) {
  if (link.processors > 0) {
    const double before_s = link.port_share * link.latency_s / 2;
    const double transfer_s = link.transfer_s(bytes) / 2, end_s = before_s + transfer_s;
    return {before_s, transfer_s, (1 - link.port_share) * link.latency_s, end_s, end_s};
  }
  return {link.port_share * link.latency_s,
          link.transfer_s(bytes),
          (1 - link.port_share) * link.latency_s,
          0,
          0,
          link.change_share * link.latency_s};
}

Cost cost_of(const LogGP& model, double bytes) {
  const double before_s = std::max(model.gap_s, model.overhead_s);
  return {before_s, std::max(bytes - 1, 0.0) * model.gap_per_byte_s,
          model.overhead_s + model.latency_s - before_s, model.overhead_s, model.overhead_s};
}

Cost cost_of(const PLogP& model, double bytes) {
  const double gap_s = std::max(look_up(model.gap_s, bytes), 0.0);  // beyond the table too
  const double send_s = std::clamp(look_up(model.send_overhead_s, bytes), 0.0, gap_s);
  const double receive_s = std::clamp(look_up(model.receive_overhead_s, bytes), 0.0, gap_s);
  return {0, gap_s, model.latency_s - receive_s, send_s, receive_s};
}

void require(const char* field, double value, bool zero_too) {
  PATR_CHECK(std::isfinite(value) && (value > 0 || (zero_too && value == 0)), ScheduleError,
             "network: expected a finite ", field, zero_too ? " >= 0" : " > 0", ", got ", value);
}

void check_table(const char* field, const SizeTable& table) {
  PATR_CHECK(!table.empty(), ScheduleError, "network: expected sizes in ", field, ", got none");
  for (std::size_t i = 0; i < table.size(); ++i) {
    require(field, table[i].second, true);
    PATR_CHECK(table[i].first >= 0 && (i == 0 || table[i].first > table[i - 1].first),
               ScheduleError, "network: expected ascending sizes >= 0 in ", field, ", got ",
               table[i].first, " bytes");
  }
}

void check_model(const Link& link) { check(link); }

void check_model(const LogGP& model) {
  require("latency_s", model.latency_s, true);
  require("overhead_s", model.overhead_s, true);
  require("gap_s", model.gap_s, true);
  require("gap_per_byte_s", model.gap_per_byte_s, true);
  require("reduce_bytes_per_s", model.reduce_bytes_per_s, false);
}

// The larger overhead must fit into the gap at every size that is listed: between them all are
// straight.
void check_model(const PLogP& model) {
  require("latency_s", model.latency_s, true);
  require("reduce_bytes_per_s", model.reduce_bytes_per_s, false);
  check_table("gap_s", model.gap_s);
  check_table("send_overhead_s", model.send_overhead_s);
  check_table("receive_overhead_s", model.receive_overhead_s);
  for (const SizeTable* table : {&model.gap_s, &model.send_overhead_s, &model.receive_overhead_s}) {
    for (const auto& [bytes, seconds] : *table) {
      const double gap_s = look_up(model.gap_s, bytes) * (1 + 1e-12);
      PATR_CHECK(look_up(model.send_overhead_s, bytes) <= gap_s &&
                     look_up(model.receive_overhead_s, bytes) <= gap_s,
                 ScheduleError, "network: expected overheads within the gap, at ", bytes,
                 " bytes they are longer");
    }
  }
}

}  // namespace

Cost cost(const Model& model, double message_bytes) {
  return std::visit([&](const auto& m) { return cost_of(m, message_bytes); }, model);
}

double reduce_bytes_per_s(const Model& model) {
  return std::visit([](const auto& m) { return m.reduce_bytes_per_s; }, model);
}

double least_flight_s(const Model& model, double message_bytes) {
  if (const Link* link = std::get_if<Link>(&model)) {
    return link->latency_s + (link->transfers_s.empty() ? link->transfer_s(message_bytes) : 0);
  }
  if (const LogGP* loggp = std::get_if<LogGP>(&model)) {
    return loggp->latency_s + loggp->overhead_s +
           std::max(message_bytes - 1, 0.0) * loggp->gap_per_byte_s;
  }
  return std::get<PLogP>(model).latency_s;  // a gap is no shorter than the receiver's overhead
}

Cost cost(const Network& network, std::int32_t from, std::int32_t to, double message_bytes) {
  const bool within = network.same_node(from, to);
  if (within && network.within_node >= 0)
    return cost(network.models[network.within_node], message_bytes);
  const Model &sender = network.of(from), &receiver = network.of(to);
  Cost result = cost(sender, message_bytes);
  if (&sender != &receiver) {
    const Cost other = cost(receiver, message_bytes);
    result.before_s = std::max(result.before_s, other.before_s);
    result.transfer_s = std::max(result.transfer_s, other.transfer_s);
    result.after_s = std::max(result.after_s, other.after_s);
    result.change_s = std::max(result.change_s, other.change_s);
    result.receive_s = other.receive_s;
  }
  if (!within && network.has_uplinks())
    for (const std::int32_t rank : {from, to})
      result.transfer_s = std::max(result.transfer_s, uplink_s(network, rank, message_bytes));
  return result;
}

double uplink_s(const Network& network, std::int32_t rank, double message_bytes) {
  const auto node = static_cast<std::size_t>(network.node_of[static_cast<std::size_t>(rank)]);
  return message_bytes / network.uplink_bytes_per_s[node];
}

double port_s(const Network& network, std::int32_t rank, double message_bytes) {
  const double own_s = cost(network.of(rank), message_bytes).transfer_s;
  return network.has_uplinks() ? std::max(own_s, uplink_s(network, rank, message_bytes)) : own_s;
}

int processors(const Network& network) {
  const Link* const link = std::get_if<Link>(&network.models.front());
  return link ? link->processors : 0;
}

double burst_s(const Network& network) {
  const Link* const link = std::get_if<Link>(&network.models.front());
  const double bytes = network.burst_bytes > 0 || !link ? network.burst_bytes : link->burst_bytes;
  if (bytes == 0 || processors(network) > 0) return 0;  // there is no port
  return cost(network.models.front(), bytes).transfer_s;
}

double partners(const Network& network) {
  const Link* const link = std::get_if<Link>(&network.models.front());
  return link ? link->partners : 1;
}

void check(const Network& network, int ranks) {
  PATR_CHECK(!network.models.empty(), ScheduleError, "network: expected a model, got none");
  for (const Model& model : network.models) {
    std::visit([](const auto& m) { check_model(m); }, model);
  }
  const auto check_ranks = [&](const char* field, const std::vector<std::int32_t>& values) {
    PATR_CHECK(values.empty() || values.size() == std::size_t(ranks), ScheduleError,
               "network: expected one value per rank (", ranks, ") in ", field, ", got ",
               values.size());
    for (const std::int32_t value : values) {
      PATR_CHECK(value >= 0, ScheduleError, "network: expected ", field, " >= 0, got ", value);
    }
  };
  check_ranks("model_of", network.model_of);
  check_ranks("node_of", network.node_of);
  const auto models = static_cast<std::int32_t>(network.models.size());
  for (const std::int32_t model : network.model_of) {
    PATR_CHECK(model < models, ScheduleError, "network: expected a model below ", models, ", got ",
               model);
  }
  PATR_CHECK(network.within_node >= -1 && network.within_node < models, ScheduleError,
             "network: expected within_node below ", models, ", got ", network.within_node);
  for (const double rate : network.uplink_bytes_per_s) require("uplink_bytes_per_s", rate, false);
  if (network.has_uplinks()) {
    const auto last = *std::max_element(network.node_of.begin(), network.node_of.end());
    PATR_CHECK(std::size_t(last) < network.uplink_bytes_per_s.size(), ScheduleError,
               "network: expected an uplink_bytes_per_s for each node up to ", last, ", got ",
               network.uplink_bytes_per_s.size());
  }
  const int shared = processors(network);
  for (const Model& model : network.models) {
    const Link* const link = std::get_if<Link>(&model);
    PATR_CHECK((link ? link->processors : 0) == shared, ScheduleError,
               "network: expected as many processors in every link, got ", shared, " and ",
               link ? link->processors : 0);
  }
  PATR_CHECK(shared == 0 || network.node_of.empty(), ScheduleError,
             "network: expected no nodes where processors move all messages, got ", shared,
             " processors");
  require("burst_bytes", network.burst_bytes, true);
  require("call_s", network.call_s, true);
}

}  // namespace patallreduce::pricing
