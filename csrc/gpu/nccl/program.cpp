// Everything is decided segment by segment, stage by stage, as the steps are gone through once: for
// every segment and kind of memory, which sums touched it last, and which stage's sums made its
// value; and, lane by lane, which group received into it or sent from it last. The levels say that
// no group comes before a group whose values it needs.
#include "gpu/nccl/program.h"

#include <algorithm>
#include <array>
#include <cstddef>
#include <utility>

#include "errors.h"
#include "schedule/lanes.h"
#include "schedule/levels.h"
#include "schedule/needs.h"
#include "schedule/print.h"

namespace patallreduce::gpu {

using schedule::lanes_of;
using schedule::Levels;
using schedule::levels_of;
using schedule::Needs;
using schedule::needs_of;
using schedule::place;
using schedule::Schedule;
using schedule::Step;
using schedule::Steps;
using schedule::Verb;

namespace {

constexpr std::int32_t never = -1;
constexpr std::size_t memories = 4;

class Compiler {
 public:
  Compiler(const Schedule& schedule, int rank, const StreamProgramOptions& options)
      : schedule_(schedule),
        steps_(schedule.steps[rank]),
        options_(options),
        value_(schedule.problem.segments, Value{Memory::home, true, 0}),
        touched_(schedule.problem.segments, {never, 0, never, never}),
        received_(schedule.problem.segments * memories * options.lanes, never),
        sent_(received_) {
    program_.rank = rank;
    program_.ranks = schedule.problem.ranks;
    program_.segments = schedule.problem.segments;
    const std::string& collective = schedule.collective;
    const bool blocks = collective == "all_gather" || collective == "reduce_scatter";
    program_.blocks = blocks ? schedule.problem.ranks : 1;
    program_.has_result = collective != "reduce" || rank == schedule.problem.root;
    program_.divides = collective == "all_reduce" || collective == "reduce_scatter" ||
                       (collective == "reduce" && program_.has_result);
    program_.scales = options.scales;
    program_.lanes = options.lanes;
    program_.result_behind.assign(options.lanes, never);
    region_user_.assign(options.regions, never);
    look_ahead();
  }

  std::shared_ptr<const StreamProgram> run() {
    const Levels levels = levels_of(schedule_, options_.ports);
    const std::vector<std::int32_t>& level = levels.of_step[program_.rank];
    if (options_.lanes > 1) {
      lane_ = lanes_of(schedule_, levels, options_.lanes)[program_.rank];
    } else {
      lane_.assign(steps_.size(), 0);
    }
    std::vector<std::int32_t> in_order(steps_.size());
    for (std::size_t i = 0; i < steps_.size(); ++i) in_order[i] = std::int32_t(i);
    std::stable_sort(in_order.begin(), in_order.end(),
                     [&](std::int32_t a, std::int32_t b) { return level[a] < level[b]; });
    open_stage();
    if (options_.scales) scale_what_is_sent();
    for (std::size_t i = 0; i < in_order.size();) {
      std::vector<std::int32_t> together;
      const std::int32_t at = level[in_order[i]];
      for (; i < in_order.size() && level[in_order[i]] == at; ++i) together.push_back(in_order[i]);
      add_stage(together);
    }
    note_awaited();
    return std::make_shared<StreamProgram>(std::move(program_));
  }

 private:
  struct Value {
    Memory memory;
    bool callers;          // still the caller's own, unscaled
    std::int32_t made_by;  // stage whose sums made it; `never`: a group did
  };

  // Lane by lane: the last group that received into (sent from) a segment of home or shadow.
  std::int32_t* received(std::int32_t segment, Memory memory) {
    return &received_[(segment * memories + std::size_t(memory)) * options_.lanes];
  }
  std::int32_t* sent(std::int32_t segment, Memory memory) {
    return &sent_[(segment * memories + std::size_t(memory)) * options_.lanes];
  }

  void open_stage() {
    Stage stage;
    stage.groups.resize(options_.lanes);
    for (Group& group : stage.groups) group.behind.assign(options_.lanes, never);
    stage.behind.assign(options_.lanes, never);
    program_.stages.push_back(std::move(stage));
  }

  void note_awaited() {
    auto& stages = program_.stages;
    const auto note = [&](const Behind& behind) {
      for (int lane = 0; lane < options_.lanes; ++lane) {
        if (behind[lane] >= 0) stages[behind[lane]].groups[lane].awaited = true;
      }
    };
    note(program_.result_behind);
    for (const Stage& stage : stages) {
      note(stage.behind);
      for (const Group& group : stage.groups) {
        note(group.behind);
        if (group.after >= 0) stages[group.after].awaited = true;
      }
    }
  }

  std::int32_t stage() const { return std::int32_t(program_.stages.size()) - 1; }
  std::int32_t& touched(std::int32_t segment, Memory memory) {
    return touched_[segment][std::size_t(memory)];
  }

  void look_ahead() {
    Needs needs = needs_of(steps_, program_.segments);
    PATR_CHECK(needs.torn < 0, ScheduleError, place(schedule_, program_.rank, needs.torn),
               ": is the last to write some of its segments and not others");
    last_write_ = std::move(needs.last_write);
    sent_later_ = std::move(needs.sent_later);
  }

  // Sums that touch home or shadow; `stage` is where they stand.
  void add_apply(std::int32_t at, const Apply& apply) {
    program_.stages[at].applies.push_back(apply);
    for (const Memory memory : {apply.out, apply.also, apply.received, apply.held}) {
      if (memory == Memory::shadow) program_.shadow = true;
      if (memory == Memory::home) touches_home(at);
      if (memory != Memory::home && memory != Memory::shadow) continue;
      const bool overwrites = memory == apply.out || memory == apply.also;
      for (std::int32_t s = apply.first; s < apply.last; ++s) {
        touched(s, memory) = at;
        get_behind(program_.stages[at].behind, s, memory, overwrites);
      }
    }
  }

  // Behind what groups received there and, to overwrite it, behind what they send from there.
  void get_behind(Behind& behind, std::int32_t segment, Memory memory, bool overwrites) {
    for (int lane = 0; lane < options_.lanes; ++lane) {
      behind[lane] = std::max(behind[lane], received(segment, memory)[lane]);
      if (overwrites) behind[lane] = std::max(behind[lane], sent(segment, memory)[lane]);
    }
  }

  void touches_home(std::int32_t at) {
    program_.result_stage = std::max(program_.result_stage, at);
  }

  // A group of the stage at hand receives into, or sends from, memory that is no scratch.
  void uses(const Step& step, Memory memory, std::int32_t lane) {
    const bool sends = step.verb == Verb::send;
    Behind& behind = program_.stages.back().groups[lane].behind;
    for (std::int32_t s = step.first; s < step.last; ++s) {
      get_behind(behind, s, memory, !sends);
      (sends ? sent(s, memory) : received(s, memory))[lane] = stage();
    }
    behind[lane] = never;  // a lane keeps its order
    if (memory == Memory::shadow) program_.shadow = true;
    if (memory != Memory::home) return;
    touches_home(stage());
    program_.result_behind[lane] = stage();
  }

  // Calls visit(first, last) for each longest run of segments that are alike.
  template <typename Alike, typename Visit>
  void each_run(std::int32_t first, std::int32_t last, const Alike& alike, const Visit& visit) {
    for (std::int32_t begin = first; begin < last;) {
      std::int32_t end = begin + 1;
      while (end < last && alike(value_[begin], value_[end])) ++end;
      visit(begin, end);
      begin = end;
    }
  }

  // A contribution that is sent before anything is added to it has to be scaled beforehand.
  void scale_what_is_sent() {
    std::vector<char> met(program_.segments, 0), scaled(program_.segments, 0);
    for (const Step& step : steps_) {
      for (std::int32_t s = step.first; s < step.last; ++s) {
        scaled[s] |= step.verb == Verb::send && !met[s];
        met[s] = 1;
      }
    }
    const Memory out = program_.has_result ? Memory::home : Memory::shadow;
    for (std::int32_t first = 0; first < program_.segments; ++first) {
      if (!scaled[first]) continue;
      std::int32_t last = first;
      while (last < program_.segments && scaled[last]) value_[last++] = {out, false, 0};
      add_apply(0, {first, last, out, Memory::none, Memory::home, never, Memory::none, true});
      first = last;
    }
  }

  void add_stage(const std::vector<std::int32_t>& together) {
    open_stage();
    for (const std::int32_t i : together) {
      program_.stages.back().groups[lane_[i]].has_messages = true;
      if (steps_[i].verb == Verb::send) add_send(i);
    }
    std::vector<char> met;  // by the stage's steps so far
    for (const std::int32_t i : together) {
      met.resize(program_.segments);
      if (steps_[i].verb != Verb::send) add_receive(i, met);
      std::fill(met.begin() + steps_[i].first, met.begin() + steps_[i].last, 1);
    }
    for (std::size_t r = 0; r < received_by_.size(); ++r) apply(received_by_[r], std::int32_t(r));
    received_by_.clear();
  }

  void wait_for(std::int32_t lane, std::int32_t sums) {
    Group& group = program_.stages.back().groups[lane];
    group.after = std::max(group.after, sums);
  }

  void add_send(std::int32_t i) {
    const Step& step = steps_[i];
    const auto alike = [](const Value& a, const Value& b) { return a.memory == b.memory; };
    bool together = true;
    for (std::int32_t s = step.first; s < step.last; ++s) {
      together = together && alike(value_[s], value_[step.first]);
    }
    if (!together) gather(step);
    for (std::int32_t s = step.first; s < step.last; ++s) wait_for(lane_[i], value_[s].made_by);
    const Memory memory = value_[step.first].memory;
    uses(step, memory, lane_[i]);
    program_.stages.back().sends.push_back({step.peer, step.first, step.last, memory, lane_[i]});
  }

  // One message needs one stretch of memory; what is in shadow lies there as it would at home.
  void gather(const Step& step) {
    const std::int32_t before = stage() - 1;
    const auto alike = [](const Value& a, const Value& b) { return a.memory == b.memory; };
    each_run(step.first, step.last, alike, [&](std::int32_t first, std::int32_t last) {
      if (value_[first].memory == Memory::shadow) return;
      add_apply(before, {first, last, Memory::shadow, Memory::none, Memory::home, never,
                         Memory::none, false});
      for (std::int32_t s = first; s < last; ++s) value_[s] = {Memory::shadow, false, before};
    });
  }

  bool keeps(std::int32_t i) const {
    return program_.has_result && options_.early_out && last_write_[i] && sent_later_[i];
  }
  Memory out_of(std::int32_t i) const {
    return program_.has_result && !keeps(i) ? Memory::home : Memory::shadow;
  }

  void add_receive(std::int32_t i, const std::vector<char>& met) {
    const Step& step = steps_[i];
    Memory memory = out_of(i);
    const bool alone =
        std::find(met.begin() + step.first, met.begin() + step.last, 1) == met.begin() + step.last;
    if (step.verb == Verb::recv && alone) {
      for (std::int32_t s = step.first; s < step.last; ++s) wait_for(lane_[i], touched(s, memory));
      uses(step, memory, lane_[i]);
    } else {
      memory = Memory::scratch;
      take_region(lane_[i]);
    }
    program_.stages.back().receives.push_back({step.peer, step.first, step.last, memory, lane_[i]});
    received_by_.push_back(i);
  }

  void take_region(std::int32_t lane) {
    Stage& now = program_.stages.back();
    if (now.region < 0) {
      now.region = next_region_;
      next_region_ = (next_region_ + 1) % options_.regions;
      program_.regions = std::max(program_.regions, now.region + 1);
      used_before_ = region_user_[now.region];
      region_user_[now.region] = stage();
    }
    wait_for(lane, used_before_);
  }

  void apply(std::int32_t i, std::int32_t receive) {
    const Step& step = steps_[i];
    const Memory landed = program_.stages.back().receives[receive].memory;
    if (landed == Memory::scratch) program_.stages.back().behind[lane_[i]] = stage();
    const Memory out = out_of(i), also = keeps(i) ? Memory::home : Memory::none;
    if (landed != Memory::scratch) {
      if (also != Memory::none) {
        add_apply(stage(),
                  {step.first, step.last, also, Memory::none, landed, never, Memory::none, false});
      }
      for (std::int32_t s = step.first; s < step.last; ++s) value_[s] = {landed, false, never};
      return;
    }
    if (step.verb == Verb::recv) {
      add_apply(stage(), {step.first, step.last, out, also, landed, receive, Memory::none, false});
    } else {
      const auto alike = [](const Value& a, const Value& b) {
        return a.memory == b.memory && a.callers == b.callers;
      };
      each_run(step.first, step.last, alike, [&](std::int32_t first, std::int32_t last) {
        add_apply(stage(), {first, last, out, also, landed, receive, value_[first].memory,
                            value_[first].callers && options_.scales});
      });
    }
    for (std::int32_t s = step.first; s < step.last; ++s) value_[s] = {out, false, stage()};
  }

  const Schedule& schedule_;
  const Steps& steps_;
  const StreamProgramOptions options_;
  StreamProgram program_{};
  std::vector<char> last_write_, sent_later_;         // [step]
  std::vector<Value> value_;                          // [segment]
  std::vector<std::array<std::int32_t, 4>> touched_;  // [segment][memory]: by which stage's sums
  std::vector<std::int32_t> received_, sent_;         // [segment][memory][lane]: by which group
  std::vector<std::int32_t> lane_;                    // [step]
  std::vector<std::int32_t> region_user_;             // [region]: the last stage to land there
  std::int32_t used_before_ = never;                  // the region at hand: by this stage
  std::int32_t next_region_ = 0;
  std::vector<std::int32_t> received_by_;  // steps of the stage that receive
};

}  // namespace

std::shared_ptr<const StreamProgram> compile(const Schedule& schedule, int rank,
                                             const StreamProgramOptions& options) {
  PATR_CHECK(rank >= 0 && std::size_t(rank) < schedule.steps.size(), ScheduleError,
             "expected a rank in 0..", schedule.problem.ranks - 1, ", got rank = ", rank);
  PATR_CHECK(options.lanes >= 1, ScheduleError, "expected lanes >= 1, got ", options.lanes);
  PATR_CHECK(options.regions >= 1, ScheduleError, "expected regions >= 1, got ", options.regions);
  return Compiler(schedule, rank, options).run();
}

}  // namespace patallreduce::gpu
