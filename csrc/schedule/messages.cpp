#include "schedule/messages.h"

#include <cstdint>
#include <unordered_map>

#include "errors.h"
#include "schedule/print.h"

namespace patallreduce::schedule {

namespace {

struct End {  // one end of a message
  int rank;
  std::size_t index;
};

void check_step(const Schedule& schedule, int rank, std::size_t index) {
  const Step& step = schedule.steps[rank][index];
  const int ranks = schedule.problem.ranks, segments = schedule.problem.segments;
  const auto require = [&](bool condition, const char* what, int limit) {
    PATR_CHECK(condition, ScheduleError, place(schedule, rank, index), ": ", what, limit);
  };
  require(step.peer >= 0 && step.peer < ranks, "peer is not below ranks = ", ranks);
  require(step.peer != rank, "a rank sends itself no messages; peer is ", rank);
  require(step.first >= 0 && step.first < step.last && step.last <= segments,
          "expected 0 <= first < last <= segments = ", segments);
}

}  // namespace

Messages match(const Schedule& schedule) {
  const int ranks = schedule.problem.ranks;
  check(schedule.problem);
  PATR_CHECK(schedule.steps.size() == std::size_t(ranks), ScheduleError, "expected the steps of ",
             ranks, " ranks, got ", schedule.steps.size());
  Messages messages;
  messages.begin.assign(1, 0);
  std::unordered_map<std::int64_t, std::vector<End>> sends;  // by channel, in program order
  const auto channel = [&](int from, int to) { return std::int64_t(from) * ranks + to; };
  for (int rank = 0; rank < ranks; ++rank) {
    const Steps& steps = schedule.steps[rank];
    messages.begin.push_back(messages.begin.back() + steps.size());
    for (std::size_t i = 0; i < steps.size(); ++i) {
      check_step(schedule, rank, i);
      if (steps[i].verb == Verb::send) sends[channel(rank, steps[i].peer)].push_back({rank, i});
    }
  }

  messages.partner.resize(messages.begin.back());
  std::unordered_map<std::int64_t, std::size_t> taken;
  for (int rank = 0; rank < ranks; ++rank) {
    const Steps& steps = schedule.steps[rank];
    for (std::size_t i = 0; i < steps.size(); ++i) {
      if (steps[i].verb == Verb::send) continue;
      const std::int64_t from_peer = channel(steps[i].peer, rank);
      const std::vector<End>& sent = sends[from_peer];
      const std::size_t number = taken[from_peer]++;
      PATR_CHECK(number < sent.size(), ScheduleError, place(schedule, rank, i), ": takes message ",
                 number, " of rank ", steps[i].peer, ", which sends only ", sent.size());
      const End& source = sent[number];
      const Step& send = schedule.steps[source.rank][source.index];
      PATR_CHECK(send.first == steps[i].first && send.last == steps[i].last, ScheduleError,
                 place(schedule, rank, i), ": takes other segments than ",
                 place(schedule, source.rank, source.index), " sends");
      const std::size_t here = messages.begin[rank] + i;
      const std::size_t there = messages.begin[source.rank] + source.index;
      messages.partner[here] = there;
      messages.partner[there] = here;
    }
  }
  for (const auto& [key, sent] : sends) {
    const std::size_t number = taken[key];
    if (number == sent.size()) continue;
    const End& lost = sent[number];
    throw ScheduleError(concat(place(schedule, lost.rank, lost.index), ": rank ",
                               schedule.steps[lost.rank][lost.index].peer,
                               " never takes this message, it takes only ", number, " from here"));
  }
  return messages;
}

}  // namespace patallreduce::schedule
