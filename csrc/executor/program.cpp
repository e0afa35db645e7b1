#include "executor/program.h"

#include <algorithm>
#include <utility>

#include "errors.h"
#include "schedule/needs.h"

namespace patallreduce::executor {

using schedule::Needs;
using schedule::needs_of;
using schedule::order_of;
using schedule::Step;
using schedule::Verb;

std::shared_ptr<const Program> compile(Steps steps, int segments, const std::string& collective,
                                       int ranks, bool is_root) {
  PATR_CHECK(steps.size() < (1u << message_bits), ScheduleError, "executor: ", steps.size(),
             " steps per rank, expected fewer than ", 1 << message_bits);
  Result result = Result::everywhere;
  if (collective == "reduce") result = is_root ? Result::here : Result::elsewhere;
  auto program = std::make_shared<Program>();
  program->segments = segments;
  program->result = result;
  program->blocks = collective == "all_gather" || collective == "reduce_scatter" ? ranks : 1;
  program->order = order_of(steps, segments);
  const std::size_t count = steps.size();
  Needs needs = needs_of(steps, segments);
  PATR_CHECK(result == Result::elsewhere || needs.torn < 0, ScheduleError, "executor: step ",
             needs.torn, " is the last to write some of its segments and not others");
  program->sent_later = std::move(needs.sent_later);
  if (result == Result::elsewhere) {  // it only lends its contribution
    program->last_write.assign(count, 0);
    program->needed = std::move(needs.reads_own);
  } else {
    program->last_write = std::move(needs.last_write);
    program->needed = std::move(needs.result);
  }
  program->touches.assign(segments, 0);
  for (const Step& step : steps) {
    for (int s = step.first; s < step.last; ++s) ++program->touches[s];
    if (step.verb == Verb::send) program->send_peers.push_back(step.peer);
  }
  program->needed_count = int(std::count(program->needed.begin(), program->needed.end(), 1));
  for (std::size_t i = 0; i < count; ++i) {
    if (steps[i].verb != Verb::send) program->recvs.push_back(static_cast<std::int32_t>(i));
    if (program->order.waits[i] == 0) program->starters.push_back(static_cast<std::int32_t>(i));
  }
  auto& peers = program->send_peers;
  std::sort(peers.begin(), peers.end());
  peers.erase(std::unique(peers.begin(), peers.end()), peers.end());
  program->steps = std::move(steps);
  return program;
}

}  // namespace patallreduce::executor
