// Everything is decided segment by segment, stage by stage, as the steps are gone through once,
// from which memory holds a segment's value and which stage's sums made it, and from which sums and
// groups touched it last (memory_uses.h). The levels see to it that no group comes before a group
// whose values it needs.
#include "gpu/nccl/program.h"

#include <algorithm>
#include <cstddef>
#include <map>

#include "errors.h"
#include "gpu/nccl/memory_uses.h"
#include "schedule/lanes.h"
#include "schedule/levels.h"
#include "schedule/needs.h"
#include "schedule/print.h"

namespace patallreduce::gpu {

using schedule::Step;
using schedule::Verb;

namespace {

constexpr std::int32_t never = -1;

void note_awaited(StreamProgram& program) {
  auto& stages = program.stages;
  const auto note = [&](const AwaitedGroups& groups) {
    for (int lane = 0; lane < program.lanes; ++lane) {
      if (groups[lane] >= 0) stages[groups[lane]].groups[lane].is_awaited = true;
    }
  };
  note(program.result_groups);
  for (const Stage& stage : stages) {
    note(stage.awaited_groups);
    for (const Group& group : stage.groups) {
      note(group.awaited_groups);
      if (group.awaited_sums >= 0) stages[group.awaited_sums].sums_are_awaited = true;
    }
  }
}

class Compiler {
 public:
  Compiler(const Schedule& schedule, int rank, const StreamProgramOptions& options)
      : schedule_(schedule),
        steps_(schedule.steps[rank]),
        options_(options),
        value_(schedule.problem.segments, Value{Memory::home, true, 0}),
        uses_(schedule.problem.segments, options.lanes),
        needs_(needs_of(steps_, schedule.problem.segments)) {
    PATR_CHECK(needs_.torn < 0, ScheduleError, place(schedule, rank, needs_.torn),
               ": is the last to write some of its segments and not others");
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
    program_.result_groups.assign(options.lanes, never);
    region_user_.assign(options.regions, never);
  }

  std::shared_ptr<const StreamProgram> run() {
    const schedule::Levels levels = levels_of(schedule_, options_.ports);
    const std::vector<std::int32_t>& level = levels.of_step[program_.rank];
    lane_ = options_.lanes > 1 ? lanes_of(schedule_, levels, options_.lanes)[program_.rank]
                               : std::vector<std::int32_t>(steps_.size(), 0);
    std::map<std::int32_t, std::vector<std::int32_t>> steps_of_level;
    for (std::size_t i = 0; i < steps_.size(); ++i) {
      steps_of_level[level[i]].push_back(std::int32_t(i));
    }
    open_stage();
    if (options_.scales) scale_what_is_sent();
    for (const auto& [_, together] : steps_of_level) add_stage(together);
    note_awaited(program_);
    return std::make_shared<StreamProgram>(std::move(program_));
  }

 private:
  struct Value {
    Memory memory;
    bool callers;          // still the caller's own, unscaled
    std::int32_t made_by;  // stage whose sums made it; `never`: a group did
  };

  void open_stage() {
    Stage& stage = program_.stages.emplace_back();
    stage.groups.resize(options_.lanes);
    for (Group& group : stage.groups) group.awaited_groups.assign(options_.lanes, never);
    stage.awaited_groups.assign(options_.lanes, never);
  }

  std::int32_t stage() const { return std::int32_t(program_.stages.size()) - 1; }

  // `at`: the stage of the sum.
  void add_sum(std::int32_t at, const Sum& sum) {
    Stage& stage = program_.stages[at];
    stage.sums.push_back(sum);
    for (const Memory memory : {sum.out, sum.also, sum.received, sum.held}) {
      if (memory == Memory::shadow) program_.shadow = true;
      if (memory == Memory::home) program_.result_stage = std::max(program_.result_stage, at);
      if (memory != Memory::home && memory != Memory::shadow) continue;
      const bool overwrites = memory == sum.out || memory == sum.also;
      for (std::int32_t s = sum.first; s < sum.last; ++s) {
        uses_.note_sums(s, memory, at);
        uses_.add_groups(stage.awaited_groups, s, memory, overwrites);
      }
    }
  }

  // A group of the stage at hand receives into, or sends from, home or shadow.
  void use(const Step& step, Memory memory, std::int32_t lane) {
    const bool sends = step.verb == Verb::send;
    AwaitedGroups& awaited = program_.stages.back().groups[lane].awaited_groups;
    for (std::int32_t s = step.first; s < step.last; ++s) {
      uses_.add_groups(awaited, s, memory, !sends);
      uses_.note_group(s, memory, lane, sends, stage());
    }
    awaited[lane] = never;  // a lane keeps its order
    if (memory == Memory::shadow) program_.shadow = true;
    if (memory != Memory::home) return;
    program_.result_stage = program_.result_groups[lane] = stage();
  }

  void set_value(std::int32_t first, std::int32_t last, const Value& value) {
    std::fill(value_.begin() + first, value_.begin() + last, value);
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
      while (last < program_.segments && scaled[last]) ++last;
      set_value(first, last, {out, false, 0});
      add_sum(0, {first, last, out, Memory::none, Memory::home, never, Memory::none, true});
      first = last;
    }
  }

  void add_stage(const std::vector<std::int32_t>& together) {
    open_stage();
    for (const std::int32_t i : together) {
      program_.stages.back().groups[lane_[i]].has_messages = true;
      if (steps_[i].verb == Verb::send) add_send(i);
    }
    std::vector<char> met(program_.segments, 0);  // by the stage's steps so far
    for (const std::int32_t i : together) {
      if (steps_[i].verb != Verb::send) add_receive(i, met);
      std::fill(met.begin() + steps_[i].first, met.begin() + steps_[i].last, 1);
    }
    for (std::size_t r = 0; r < receiving_.size(); ++r) sum_up(receiving_[r], std::int32_t(r));
    receiving_.clear();
  }

  void wait_for(std::int32_t lane, std::int32_t sums) {
    Group& group = program_.stages.back().groups[lane];
    group.awaited_sums = std::max(group.awaited_sums, sums);
  }

  void add_send(std::int32_t i) {
    const Step& step = steps_[i];
    const Memory first_memory = value_[step.first].memory;
    if (!std::all_of(value_.begin() + step.first, value_.begin() + step.last,
                     [&](const Value& value) { return value.memory == first_memory; })) {
      gather(step);
    }
    for (std::int32_t s = step.first; s < step.last; ++s) wait_for(lane_[i], value_[s].made_by);
    const Memory memory = value_[step.first].memory;
    use(step, memory, lane_[i]);
    program_.stages.back().sends.push_back({step.peer, step.first, step.last, memory, lane_[i]});
  }

  // One message needs one stretch of memory; what is in shadow lies there as it would at home.
  void gather(const Step& step) {
    const std::int32_t before = stage() - 1;
    const auto alike = [](const Value& a, const Value& b) { return a.memory == b.memory; };
    each_run(step.first, step.last, alike, [&](std::int32_t first, std::int32_t last) {
      if (value_[first].memory == Memory::shadow) return;
      add_sum(before, {first, last, Memory::shadow, Memory::none, Memory::home, never, Memory::none,
                       false});
      set_value(first, last, {Memory::shadow, false, before});
    });
  }

  bool keeps(std::int32_t i) const {
    return program_.has_result && options_.early_out && needs_.last_write[i] &&
           needs_.sent_later[i];
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
      for (std::int32_t s = step.first; s < step.last; ++s)
        wait_for(lane_[i], uses_.sums(s, memory));
      use(step, memory, lane_[i]);
    } else {
      memory = Memory::scratch;
      take_region(lane_[i]);
    }
    program_.stages.back().receives.push_back({step.peer, step.first, step.last, memory, lane_[i]});
    receiving_.push_back(i);
  }

  void take_region(std::int32_t lane) {
    Stage& now = program_.stages.back();
    if (now.region < 0) {
      now.region = regions_taken_++ % options_.regions;
      program_.regions = std::max(program_.regions, now.region + 1);
      used_before_ = region_user_[now.region];
      region_user_[now.region] = stage();
    }
    wait_for(lane, used_before_);
  }

  // What the step has received becomes the segments' value.
  void sum_up(std::int32_t i, std::int32_t receive) {
    const Step& step = steps_[i];
    const Memory landed = program_.stages.back().receives[receive].memory;
    if (landed == Memory::scratch) program_.stages.back().awaited_groups[lane_[i]] = stage();
    const Memory out = out_of(i), also = keeps(i) ? Memory::home : Memory::none;
    if (landed != Memory::scratch) {
      if (also != Memory::none) {
        add_sum(stage(),
                {step.first, step.last, also, Memory::none, landed, never, Memory::none, false});
      }
      return set_value(step.first, step.last, {landed, false, never});
    }
    if (step.verb == Verb::recv) {
      add_sum(stage(), {step.first, step.last, out, also, landed, receive, Memory::none, false});
    } else {
      const auto alike = [](const Value& a, const Value& b) {
        return a.memory == b.memory && a.callers == b.callers;
      };
      each_run(step.first, step.last, alike, [&](std::int32_t first, std::int32_t last) {
        add_sum(stage(), {first, last, out, also, landed, receive, value_[first].memory,
                          value_[first].callers && options_.scales});
      });
    }
    set_value(step.first, step.last, {out, false, stage()});
  }

  const Schedule& schedule_;
  const schedule::Steps& steps_;
  const StreamProgramOptions options_;
  StreamProgram program_{};
  std::vector<Value> value_;  // [segment]
  MemoryUses uses_;
  const schedule::Needs needs_;
  std::vector<std::int32_t> lane_;         // [step]
  std::vector<std::int32_t> region_user_;  // [region]: the last stage to land there
  std::int32_t used_before_ = never;       // the region at hand: by this stage
  std::int32_t regions_taken_ = 0;
  std::vector<std::int32_t> receiving_;  // the steps of the stage at hand that receive
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
