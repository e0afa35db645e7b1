#include "pricing/rounds.h"

#include <cmath>

#include "pricing/simulation.h"
#include "schedule/messages.h"

namespace patallreduce::pricing {

using schedule::match;
using schedule::Messages;
using schedule::own_rounds;
using schedule::Rounds;
using schedule::Schedule;

Rounds rounds_of(const Schedule& schedule) {
  Rounds rounds = own_rounds(schedule);
  if (!rounds.empty()) return rounds;
  const Messages messages = match(schedule);
  std::vector<std::int64_t> by_number(messages.partner.size());
  // A second per message, beside which any number of bytes vanishes: times are whole seconds.
  const Link link{1, 1e300, 1e300, {}, 1};
  const auto bytes = static_cast<std::uint64_t>(schedule.problem.segments);  // none is empty
  for (const PortUse& use : Simulation(schedule).run(bytes, link, {}, true).uses)
    by_number[use.send] = by_number[messages.partner[use.send]] = std::llround(use.begin_s);
  for (std::size_t rank = 0; rank < schedule.steps.size(); ++rank)
    rounds.emplace_back(by_number.begin() + std::ptrdiff_t(messages.begin[rank]),
                        by_number.begin() + std::ptrdiff_t(messages.begin[rank + 1]));
  return rounds;
}

}  // namespace patallreduce::pricing
