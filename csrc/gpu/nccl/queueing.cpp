#include "gpu/nccl/queueing.h"

#include "schedule/offsets.h"

namespace patallreduce::gpu {

using reduction::CudaReduction;
using reduction::Op;
using reduction::size_of;
using schedule::segment_offsets;

StreamExecutor::Queueing::Queueing(StreamExecutor& executor, StreamTicket& ticket)
    : executor_(executor),
      device_(*executor.device_),
      ticket_(ticket),
      program_(*ticket.program),
      call_(ticket.call),
      scale_(program_.scales ? 1.0 / program_.ranks : 1),
      offsets_(
          segment_offsets(call_.count, size_of(call_.dtype), program_.segments, program_.blocks)),
      summed_(program_.stages.size(), nullptr),
      passed_(program_.lanes, std::vector<void*>(program_.stages.size(), nullptr)),
      last_stage_(program_.lanes, -1),
      lane_waited_(program_.lanes, {-1, Behind(program_.lanes, -1)}),
      sums_waited_(program_.lanes, -1) {
  for (std::int32_t s = 1; s < std::int32_t(program_.stages.size()); ++s) {
    for (int lane = 0; lane < program_.lanes; ++lane) {
      if (program_.stages[s].groups[lane].has_messages) last_stage_[lane] = s;
    }
  }
}

void* StreamExecutor::Queueing::record(void* stream) {
  void* const event = executor_.take_event();
  ticket_.events.push_back(event);
  device_.record(event, stream);
  return event;
}

void StreamExecutor::Queueing::run() {
  for (const Stage& stage : program_.stages) {
    if (stage.region >= 0) region_bytes_ = std::max(region_bytes_, landings(stage).back());
  }
  executor_.provide(executor_.scratch_, region_bytes_ * program_.regions);
  executor_.provide(executor_.shadow_, program_.shadow ? offsets_.back() : 0);

  ticket_.last_passed.assign(program_.lanes, nullptr);
  device_.wait(executor_.sums_, ticket_.arrival);
  summed_[0] = ticket_.arrival;
  if (program_.shadow) wait_for_shadow(executor_.sums_, -1);
  for (std::int32_t s = 0; s < std::int32_t(program_.stages.size()); ++s) {
    const Stage& stage = program_.stages[s];
    landings_ = landings(stage);
    for (std::int32_t lane = 0; lane < program_.lanes; ++lane) {
      if (stage.groups[lane].has_messages) group(s, lane);
    }
    if (!stage.applies.empty()) {
      wait_for_groups(executor_.sums_, stage.behind, sums_waited_);
      sum(s);
    }
    if (s == program_.result_stage) finish();
  }
  ticket_.summed = record(executor_.sums_);
  executor_.last_summed_ = ticket_.summed;
  for (int lane = 0; lane < program_.lanes; ++lane) {
    void* const last = ticket_.last_passed[lane];
    if (last) executor_.lanes_[lane].last_passed = last;
  }
}

void StreamExecutor::Queueing::wait_for_groups(void* stream, const Behind& behind, Behind& known) {
  for (std::size_t lane = 0; lane < behind.size(); ++lane) {
    if (behind[lane] <= known[lane]) continue;
    device_.wait(stream, passed_[lane][behind[lane]]);
    known[lane] = behind[lane];
  }
}

void StreamExecutor::Queueing::wait_for_shadow(void* stream, std::int32_t lane) {
  for (std::int32_t other = 0; other < executor_.lanes(); ++other) {
    void* const last = executor_.lanes_[other].last_passed;
    if (other != lane && last) device_.wait(stream, last);
  }
}

// What the collective before still sums, or sends, lies where this one may receive.
void StreamExecutor::Queueing::start(std::int32_t lane) {
  void* const messages = executor_.lanes_[lane].messages;
  if ((program_.regions > 0 || program_.shadow) && executor_.last_summed_) {
    device_.wait(messages, executor_.last_summed_);
  }
  if (program_.shadow) wait_for_shadow(messages, lane);
  lane_waited_[lane].started = true;
}

void StreamExecutor::Queueing::group(std::int32_t s, std::int32_t lane) {
  const Stage& stage = program_.stages[s];
  const Group& group = stage.groups[lane];
  void* const messages = executor_.lanes_[lane].messages;
  Waited& waited = lane_waited_[lane];
  if (!waited.started) start(lane);
  if (group.after > waited.sums) {
    device_.wait(messages, summed_[group.after]);
    waited.sums = group.after;
  }
  wait_for_groups(messages, group.behind, waited.groups);
  std::vector<NcclMessage> sends, receives;
  for (const Transfer& send : stage.sends) {
    const std::size_t size = send.lane == lane ? bytes(send.first, send.last) : 0;
    if (size > 0) sends.push_back({send.peer, address(send.memory, send.first), size});
  }
  for (std::size_t r = 0; r < stage.receives.size(); ++r) {
    const Transfer& receive = stage.receives[r];
    const std::size_t size = receive.lane == lane ? bytes(receive.first, receive.last) : 0;
    if (size == 0) continue;
    std::byte* const to = receive.memory == Memory::scratch
                              ? landing(stage, std::int32_t(r))
                              : address(receive.memory, receive.first);
    receives.push_back({receive.peer, to, size});
  }
  executor_.lanes_[lane].nccl->group(sends, receives, messages, ticket_.deadline_s);
  if (!group.awaited && s != last_stage_[lane]) return;
  void* const passed = passed_[lane][s] = record(messages);
  ticket_.passed.push_back({lane, s, passed});
  if (s == last_stage_[lane]) ticket_.last_passed[lane] = passed;
}

void StreamExecutor::Queueing::sum(std::int32_t s) {
  const Stage& stage = program_.stages[s];
  for (const Apply& one : stage.applies) apply(stage, one);
  if (stage.awaited) summed_[s] = record(executor_.sums_);
}

void StreamExecutor::Queueing::apply(const Stage& stage, const Apply& apply) {
  const std::size_t count = bytes(apply.first, apply.last) / size_of(call_.dtype);
  if (count == 0) return;
  std::byte* received = address(apply.received, apply.first);
  if (apply.received == Memory::scratch) {
    const Transfer& message = stage.receives[apply.receive];
    received = landing(stage, apply.receive) + bytes(message.first, apply.first);
  }
  std::byte* const out = address(apply.out, apply.first);
  std::byte* const also = address(apply.also, apply.first);
  const CudaReduction& reduction = device_.reduction();
  const double scale = apply.callers ? scale_ : 1;
  if (apply.held != Memory::none) {
    reduction.combine(out, also, received, address(apply.held, apply.first), count, call_.dtype,
                      call_.op, scale, executor_.sums_);
    return;
  }
  reduction.scale_copy(out, received, count, call_.dtype, scale, executor_.sums_);
  if (also) reduction.scale_copy(also, received, count, call_.dtype, scale, executor_.sums_);
}

// The result is at home once the groups that touch it, and all sums so far, are over.
void StreamExecutor::Queueing::finish() {
  wait_for_groups(executor_.sums_, program_.result_behind, sums_waited_);
  if (call_.op == Op::avg && program_.divides && call_.count > 0) {
    device_.reduction().divide(call_.home, call_.count, call_.dtype, program_.ranks,
                               executor_.sums_);
  }
  ticket_.result = record(executor_.sums_);
}

std::byte* StreamExecutor::Queueing::address(Memory memory, std::int32_t first) const {
  if (memory == Memory::home) return static_cast<std::byte*>(call_.home) + offsets_[first];
  if (memory == Memory::shadow) return executor_.shadow_.memory + offsets_[first];
  return nullptr;
}

std::vector<std::size_t> StreamExecutor::Queueing::landings(const Stage& stage) const {
  std::vector<std::size_t> begins{0};
  for (const Transfer& receive : stage.receives) {
    const std::size_t size =
        receive.memory == Memory::scratch ? bytes(receive.first, receive.last) : 0;
    begins.push_back(begins.back() + (size + alignment - 1) / alignment * alignment);
  }
  return begins;
}

std::byte* StreamExecutor::Queueing::landing(const Stage& stage, std::int32_t receive) const {
  return executor_.scratch_.memory + region_bytes_ * stage.region + landings_[receive];
}

}  // namespace patallreduce::gpu
