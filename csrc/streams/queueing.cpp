#include "streams/queueing.h"

#include "schedule/offsets.h"

namespace patallreduce {

StreamExecutor::Queueing::Queueing(StreamExecutor& executor, StreamTicket& ticket)
    : executor_(executor),
      device_(*executor.device_),
      ticket_(ticket),
      program_(*ticket.program),
      call_(ticket.call),
      scale_(program_.scales ? 1.0 / program_.ranks : 1),
      offsets_(
          segment_offsets(call_.count, size_of(call_.dtype), program_.segments, program_.blocks)),
      summed_(program_.stages.size(), nullptr) {}

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

  device_.wait(executor_.sums_, ticket_.arrival);
  summed_[0] = ticket_.arrival;
  if (!program_.stages[0].applies.empty()) {
    // Sums of other stages follow their groups, which follow those of the collective before.
    if (program_.shadow && executor_.last_passed_) {
      device_.wait(executor_.sums_, executor_.last_passed_);
    }
    sum(0);
  }
  if (program_.result_stage == 0) finish(nullptr);
  for (std::int32_t s = 1; s < std::int32_t(program_.stages.size()); ++s) {
    const Stage& stage = program_.stages[s];
    landings_ = landings(stage);
    group(s);
    void* passed = nullptr;
    const bool is_last = s + 1 == std::int32_t(program_.stages.size());
    if (!stage.applies.empty() || s == program_.result_stage || is_last) {
      passed = record(executor_.messages_);
      ticket_.passed.push_back({s, passed});
    }
    if (!stage.applies.empty()) {
      device_.wait(executor_.sums_, passed);
      passed = nullptr;
      sum(s);
    }
    if (s == program_.result_stage) finish(passed);
  }
  ticket_.summed = record(executor_.sums_);
  executor_.last_summed_ = ticket_.summed;
  if (!ticket_.passed.empty()) executor_.last_passed_ = ticket_.passed.back().second;
}

void StreamExecutor::Queueing::group(std::int32_t s) {
  const Stage& stage = program_.stages[s];
  // What the collective before still sums lies where this one may receive.
  if (!has_messages_ && (program_.regions > 0 || program_.shadow) && executor_.last_summed_) {
    device_.wait(executor_.messages_, executor_.last_summed_);
  }
  has_messages_ = true;
  if (stage.after > waited_for_) {
    device_.wait(executor_.messages_, summed_[stage.after]);
    waited_for_ = stage.after;
  }
  std::vector<NcclMessage> sends, receives;
  for (const Transfer& send : stage.sends) {
    const std::size_t size = bytes(send.first, send.last);
    if (size > 0) sends.push_back({send.peer, address(send.memory, send.first), size});
  }
  for (std::size_t r = 0; r < stage.receives.size(); ++r) {
    const Transfer& receive = stage.receives[r];
    const std::size_t size = bytes(receive.first, receive.last);
    if (size == 0) continue;
    std::byte* const to = receive.memory == Memory::scratch
                              ? landing(stage, std::int32_t(r))
                              : address(receive.memory, receive.first);
    receives.push_back({receive.peer, to, size});
  }
  executor_.nccl_->group(sends, receives, executor_.messages_, ticket_.deadline_s);
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

// The result is at home once `passed`, if it is there, and all sums so far are over.
void StreamExecutor::Queueing::finish(void* passed) {
  if (passed) device_.wait(executor_.sums_, passed);
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

}  // namespace patallreduce
