#include "pricing/generated.h"

#include <algorithm>
#include <cmath>

#include "pricing/generated_steps.h"
#include "pricing/ports.h"

namespace patallreduce::pricing {

namespace {

// No message is there sooner after it has begun to leave.
double least_flight_s(const Network& network, double least_bytes) {
  double flight_s = HUGE_VAL;
  for (const Model& model : network.models)
    flight_s = std::min(flight_s, least_flight_s(model, least_bytes));
  return flight_s;
}

}  // namespace

Account simulate_generated(const StepSource& source, std::uint64_t message_bytes,
                           const Network& network, const std::vector<double>& arrivals_s,
                           const Accounting& accounting) {
  const int ranks = source.problem().ranks;
  check(network, ranks);
  check_arrivals(arrivals_s, ranks);
  const RunClock clock(arrivals_s);
  const SegmentBytes bytes(message_bytes, source.problem().segments);
  const auto run = [&](bool by_rank, double flight_s) {
    GeneratedSteps steps(source, by_rank);
    Ports<GeneratedSteps> ports(steps, {bytes}, network, clock.arrivals_s, accounting);
    Account account = by_rank ? ports.run_rank_by_rank(flight_s) : ports.run_in_order_of_time();
    clock.put_back(account);
    return account;
  };
  const auto segments = static_cast<std::uint64_t>(source.problem().segments);
  const bool independent =
      !network.shared_ports && !network.has_uplinks() && processors(network) == 0;
  const bool none_left_out = message_bytes == 0 || message_bytes >= segments;
  if (independent && none_left_out && least_flight_s(network, 0) > 0 &&
      !accounting.in_order_of_time) {
    try {
      const auto least_bytes =
          burst_s(network) > 0 ? 0 : static_cast<double>(message_bytes / segments);
      return run(true, least_flight_s(network, least_bytes) * (1 - 1e-6));  // sums are rounded
    } catch (const GeneratedSteps::SecondSender&) {  // then in the order of time
    }
  }
  return run(false, 0);
}

}  // namespace patallreduce::pricing
