#include "executor/program.h"

#include <algorithm>

#include "errors.h"

namespace patallreduce::executor {

using schedule::order_of;
using schedule::Step;
using schedule::Steps;
using schedule::Verb;

namespace {

// Until a segment is first written, its value is the caller's: the steps that read it there.
std::vector<char> readers_of_the_callers(const Steps& steps, int segments) {
  std::vector<char> reads(steps.size(), 0), written(segments, 0);
  for (std::size_t i = 0; i < steps.size(); ++i) {
    for (int s = steps[i].first; s < steps[i].last; ++s) {
      reads[i] |= steps[i].verb != Verb::recv && !written[s];
      written[s] |= steps[i].verb != Verb::send;
    }
  }
  return reads;
}

}  // namespace

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
  program->sent_later.assign(count, 0);
  program->last_write.assign(count, 0);
  program->needed.assign(count, 0);
  program->touches.assign(segments, 0);
  std::vector<char> sent(segments, 0), written(segments, 0);  // by the steps after i
  for (std::size_t i = count; i-- > 0;) {
    const Step& step = steps[i];
    int unwritten = 0;
    for (int s = step.first; s < step.last; ++s) {
      program->sent_later[i] |= sent[s];
      unwritten += !written[s];
      ++program->touches[s];
    }
    if (step.verb == Verb::send) {
      std::fill(sent.begin() + step.first, sent.begin() + step.last, 1);
      program->send_peers.push_back(step.peer);
      continue;
    }
    PATR_CHECK(result == Result::elsewhere || unwritten == 0 || unwritten == step.last - step.first,
               ScheduleError, "executor: step ", i,
               " is the last to write some of its segments and not others");
    program->last_write[i] = program->needed[i] = unwritten > 0;
    std::fill(written.begin() + step.first, written.begin() + step.last, 1);
  }
  // A segment that is sent and never written (by the root of a broadcast) is read from the
  // caller's memory: the caller gets it back when that send is done.
  for (std::size_t i = 0; i < count; ++i) {
    if (steps[i].verb == Verb::send)
      for (int s = steps[i].first; s < steps[i].last; ++s) program->needed[i] |= !written[s];
  }
  if (result == Result::elsewhere) {
    program->last_write.assign(count, 0);
    program->needed = readers_of_the_callers(steps, segments);
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
