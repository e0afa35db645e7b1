// List scheduling (Graham, Bell Syst. Tech. J. 45 (1966), 1563-1581) of units, which are messages
// that must share a level, over the ranks' ports. Who comes first: the lower program index of the
// send, then the lower sender.
#include "schedule/levels.h"

#include <algorithm>
#include <cstddef>
#include <set>
#include <tuple>
#include <utility>

#include "errors.h"
#include "schedule/components.h"
#include "schedule/messages.h"
#include "schedule/print.h"

namespace patallreduce::schedule {

namespace {

struct Message {
  std::int32_t from, to;
  std::int32_t sent, taken;  // step of the sender, of the receiver
};

struct Edge {
  std::int32_t before, after;
  bool strict;  // a level later, not only no earlier
};

struct Unit {
  std::vector<std::int32_t> messages;
  std::int32_t waits = 0;     // edges from units that have no level yet
  std::int32_t earliest = 0;  // level that those with a level allow
};

class Leveling {
 public:
  Leveling(const Schedule& schedule, int ports) : schedule_(schedule), ports_(ports) {
    number_messages();
    for (int rank = 0; rank < schedule.problem.ranks; ++rank) add_edges(rank);
    make_graph();
    make_units();
  }

  Levels run() {
    Levels levels;
    for (const Steps& steps : schedule_.steps) levels.of_step.emplace_back(steps.size());
    std::set<Rank> waiting;  // every unit that this level allows
    for (std::size_t u = 0; u < units_.size(); ++u) {
      if (units_[u].waits == 0) waiting.insert(rank_of(std::int32_t(u)));
    }
    while (!waiting.empty()) {
      std::set<Rank> later;
      sent_.assign(schedule_.problem.ranks, 0);
      taken_.assign(schedule_.problem.ranks, 0);
      while (!waiting.empty()) {
        const Rank first = *waiting.begin();
        waiting.erase(waiting.begin());
        const std::int32_t unit = std::get<2>(first);
        if (!take_ports(unit)) {
          later.insert(first);
          continue;
        }
        for (const std::int32_t m : units_[unit].messages) {
          levels.of_step[messages_[m].from][messages_[m].sent] = levels.count;
          levels.of_step[messages_[m].to][messages_[m].taken] = levels.count;
        }
        each_unlocked(unit, levels.count, [&](std::int32_t next) {
          (units_[next].earliest <= levels.count ? waiting : later).insert(rank_of(next));
        });
      }
      ++levels.count;
      waiting = std::move(later);
    }
    return levels;
  }

 private:
  // Program index of the send, sender, unit: the order in which units take ports.
  using Rank = std::tuple<std::int32_t, std::int32_t, std::int32_t>;

  void number_messages() {
    const Messages matched = match(schedule_);
    for (int rank = 0; rank < schedule_.problem.ranks; ++rank) {
      of_step_.emplace_back(schedule_.steps[rank].size());
    }
    for (int rank = 0; rank < schedule_.problem.ranks; ++rank) {
      const Steps& steps = schedule_.steps[rank];
      for (std::size_t i = 0; i < steps.size(); ++i) {
        if (steps[i].verb != Verb::send) continue;
        const int to = steps[i].peer;
        const std::size_t taken = matched.partner[matched.begin[rank] + i] - matched.begin[to];
        of_step_[rank][i] = of_step_[to][taken] = std::int32_t(messages_.size());
        messages_.push_back({rank, to, std::int32_t(i), std::int32_t(taken)});
      }
    }
  }

  void add_edges(int rank) {
    constexpr std::int32_t none = -1;
    const Steps& steps = schedule_.steps[rank];
    std::vector<std::int32_t> writer(schedule_.problem.segments, none);
    std::vector<std::vector<std::int32_t>> readers(schedule_.problem.segments);
    for (std::size_t i = 0; i < steps.size(); ++i) {
      const std::int32_t message = of_step_[rank][i];
      const bool sends = steps[i].verb == Verb::send;
      for (std::int32_t s = steps[i].first; s < steps[i].last; ++s) {
        if (writer[s] != none) edges_.push_back({writer[s], message, sends});
        if (sends) {
          readers[s].push_back(message);
          continue;
        }
        for (const std::int32_t reader : readers[s]) edges_.push_back({reader, message, false});
        readers[s].clear();
        writer[s] = message;
      }
    }
  }

  void make_graph() {
    std::sort(edges_.begin(), edges_.end(), [](const Edge& a, const Edge& b) {
      return std::tie(a.before, a.after, b.strict) < std::tie(b.before, b.after, a.strict);
    });
    edges_.erase(std::unique(edges_.begin(), edges_.end(),  // of equal ones the strict one stays
                             [](const Edge& a, const Edge& b) {
                               return a.before == b.before && a.after == b.after;
                             }),
                 edges_.end());
    graph_.begin.assign(messages_.size() + 1, 0);
    for (const Edge& edge : edges_) {
      ++graph_.begin[edge.before + 1];
      graph_.to.push_back(edge.after);
    }
    for (std::size_t m = 0; m < messages_.size(); ++m) graph_.begin[m + 1] += graph_.begin[m];
  }

  void make_units() {
    unit_ = components_of(graph_);
    const auto last = std::max_element(unit_.begin(), unit_.end());
    units_.resize(unit_.empty() ? 0 : *last + 1);
    for (std::size_t m = 0; m < messages_.size(); ++m) {
      units_[unit_[m]].messages.push_back(std::int32_t(m));
    }
    for (const Edge& edge : edges_) {
      if (unit_[edge.before] != unit_[edge.after]) {
        ++units_[unit_[edge.after]].waits;
      } else if (edge.strict) {
        const Message& before = messages_[edge.before];
        const Message& after = messages_[edge.after];
        throw ScheduleError(concat("no groups: ", place(schedule_, after.from, after.sent),
                                   " has to wait for ", place(schedule_, before.to, before.taken),
                                   ", but that message may not be taken before this one"));
      }
    }
  }

  Rank rank_of(std::int32_t unit) const {
    Rank first{INT32_MAX, 0, unit};
    for (const std::int32_t m : units_[unit].messages) {
      first = std::min(first, Rank{messages_[m].sent, messages_[m].from, unit});
    }
    return first;
  }

  // A unit that needs more than all ports of a rank gets them where nobody has one yet.
  bool take_ports(std::int32_t unit) {
    std::vector<std::int32_t> before_sent, before_taken;
    const auto& messages = units_[unit].messages;
    for (const std::int32_t m : messages) {
      before_sent.push_back(sent_[messages_[m].from]);
      before_taken.push_back(taken_[messages_[m].to]);
    }
    for (const std::int32_t m : messages) {
      ++sent_[messages_[m].from];
      ++taken_[messages_[m].to];
    }
    bool fits = true;
    for (std::size_t i = 0; i < messages.size(); ++i) {
      const Message& message = messages_[messages[i]];
      fits = fits && (before_sent[i] == 0 || sent_[message.from] <= ports_) &&
             (before_taken[i] == 0 || taken_[message.to] <= ports_);
    }
    if (fits) return true;
    for (const std::int32_t m : messages) {
      --sent_[messages_[m].from];
      --taken_[messages_[m].to];
    }
    return false;
  }

  template <typename Visit>
  void each_unlocked(std::int32_t unit, std::int32_t level, const Visit& visit) {
    for (const std::int32_t m : units_[unit].messages) {
      for (std::int32_t e = graph_.begin[m]; e < graph_.begin[m + 1]; ++e) {
        const std::int32_t next = unit_[edges_[e].after];
        if (next == unit) continue;
        units_[next].earliest = std::max(units_[next].earliest, level + edges_[e].strict);
        if (--units_[next].waits == 0) visit(next);
      }
    }
  }

  const Schedule& schedule_;
  const int ports_;
  std::vector<Message> messages_;
  std::vector<std::vector<std::int32_t>> of_step_;  // [rank][step] -> message
  std::vector<Edge> edges_;                         // by `before`, as in graph_
  Graph graph_;
  std::vector<std::int32_t> unit_;  // [message]
  std::vector<Unit> units_;
  std::vector<std::int32_t> sent_, taken_;  // [rank]: in this level
};

}  // namespace

Levels levels_of(const Schedule& schedule, int ports) {
  PATR_CHECK(ports >= 1, ScheduleError, "expected ports >= 1, got ", ports);
  return Leveling(schedule, ports).run();
}

}  // namespace patallreduce::schedule
