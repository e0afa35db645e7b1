#include "gpu/nccl/queue_collective.h"

#include <algorithm>
#include <cstddef>

#include "schedule/offsets.h"

namespace patallreduce::gpu {

using schedule::segment_offsets;

namespace {

constexpr std::size_t alignment = 256;  // of what lands in scratch: whole vectors

class Queueing {
 public:
  Queueing(Streams& streams, StreamTicket& ticket);
  void run();

 private:
  std::size_t bytes(std::int32_t first, std::int32_t last) const {
    return offsets_[last] - offsets_[first];
  }
  std::byte* address(Memory memory, std::int32_t first) const;
  // Where the stage's receives land in its region; the last entry is how much they need together.
  std::vector<std::size_t> landings(const Stage& stage) const;
  std::byte* landing(const Stage& stage, std::int32_t receive) const;
  void* record(void* stream);
  // After the groups that are `awaited`, as far as that is not known from `known` already.
  void wait_for_groups(void* stream, const AwaitedGroups& awaited, AwaitedGroups& known);
  void wait_for_shadow(void* stream, std::int32_t lane);
  void start(std::int32_t lane);
  void queue_group(std::int32_t s, std::int32_t lane);
  void queue_sums(std::int32_t s);
  void queue_sum(const Stage& stage, const Sum& sum);
  void queue_result();

  Streams& streams_;
  const Device& device_;
  StreamTicket& ticket_;
  const StreamProgram& program_;
  const StreamCall& call_;
  const double scale_;
  std::vector<std::size_t> offsets_;
  std::size_t region_bytes_ = 0;
  std::vector<std::size_t> landings_;           // of the stage at hand
  std::vector<void*> sums_ends_;                // [stage]: the event behind its sums, if awaited
  std::vector<std::vector<void*>> group_ends_;  // [lane][stage]: behind its group, if it has one
  std::vector<std::int32_t> last_stage_;        // [lane] with messages; -1: none
  struct Waited {
    std::int32_t sums = -1;  // the stage whose sums the lane has waited for
    AwaitedGroups groups;    // and groups
    bool started = false;
  };
  std::vector<Waited> lane_waited_;
  AwaitedGroups sums_waited_;
};

Queueing::Queueing(Streams& streams, StreamTicket& ticket)
    : streams_(streams),
      device_(*streams.device),
      ticket_(ticket),
      program_(*ticket.program),
      call_(ticket.call),
      scale_(program_.scales ? 1.0 / program_.ranks : 1),
      offsets_(
          segment_offsets(call_.count, size_of(call_.dtype), program_.segments, program_.blocks)),
      sums_ends_(program_.stages.size(), nullptr),
      group_ends_(program_.lanes, std::vector<void*>(program_.stages.size(), nullptr)),
      last_stage_(program_.lanes, -1),
      lane_waited_(program_.lanes, {-1, AwaitedGroups(program_.lanes, -1)}),
      sums_waited_(program_.lanes, -1) {
  for (std::int32_t s = 1; s < std::int32_t(program_.stages.size()); ++s) {
    for (int lane = 0; lane < program_.lanes; ++lane) {
      if (program_.stages[s].groups[lane].has_messages) last_stage_[lane] = s;
    }
  }
}

void* Queueing::record(void* stream) {
  void* const event = streams_.events.take();
  ticket_.events.push_back(event);
  device_.record(event, stream);
  return event;
}

void Queueing::run() {
  for (const Stage& stage : program_.stages) {
    if (stage.region >= 0) region_bytes_ = std::max(region_bytes_, landings(stage).back());
  }
  streams_.scratch.provide(region_bytes_ * program_.regions);
  streams_.shadow.provide(program_.shadow ? offsets_.back() : 0);

  ticket_.lane_ends.assign(program_.lanes, nullptr);
  device_.wait(streams_.sums, ticket_.arrival);
  sums_ends_[0] = ticket_.arrival;
  if (program_.shadow) wait_for_shadow(streams_.sums, -1);
  for (std::int32_t s = 0; s < std::int32_t(program_.stages.size()); ++s) {
    const Stage& stage = program_.stages[s];
    landings_ = landings(stage);
    for (std::int32_t lane = 0; lane < program_.lanes; ++lane) {
      if (stage.groups[lane].has_messages) queue_group(s, lane);
    }
    if (!stage.sums.empty()) queue_sums(s);
    if (s == program_.result_stage) queue_result();
  }
  streams_.sums_end = ticket_.sums_end = record(streams_.sums);
  for (int lane = 0; lane < program_.lanes; ++lane) {
    if (ticket_.lane_ends[lane]) streams_.lanes[lane].end = ticket_.lane_ends[lane];
  }
}

void Queueing::wait_for_groups(void* stream, const AwaitedGroups& awaited, AwaitedGroups& known) {
  for (std::size_t lane = 0; lane < awaited.size(); ++lane) {
    if (awaited[lane] <= known[lane]) continue;
    device_.wait(stream, group_ends_[lane][awaited[lane]]);
    known[lane] = awaited[lane];
  }
}

// For what the collective before still sends from shadow, except in `lane`.
void Queueing::wait_for_shadow(void* stream, std::int32_t lane) {
  for (std::int32_t other = 0; other < std::int32_t(streams_.lanes.size()); ++other) {
    void* const end = streams_.lanes[other].end;
    if (other != lane && end) device_.wait(stream, end);
  }
}

// What the collective before still sums, or sends, lies where this one may receive.
void Queueing::start(std::int32_t lane) {
  void* const messages = streams_.lanes[lane].messages;
  if ((program_.regions > 0 || program_.shadow) && streams_.sums_end) {
    device_.wait(messages, streams_.sums_end);
  }
  if (program_.shadow) wait_for_shadow(messages, lane);
  lane_waited_[lane].started = true;
}

void Queueing::queue_group(std::int32_t s, std::int32_t lane) {
  const Stage& stage = program_.stages[s];
  const Group& group = stage.groups[lane];
  void* const messages = streams_.lanes[lane].messages;
  Waited& waited = lane_waited_[lane];
  if (!waited.started) start(lane);
  if (group.awaited_sums > waited.sums) {
    device_.wait(messages, sums_ends_[group.awaited_sums]);
    waited.sums = group.awaited_sums;
  }
  wait_for_groups(messages, group.awaited_groups, waited.groups);
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
  streams_.lanes[lane].nccl->group(sends, receives, messages, ticket_.deadline_s);
  if (!group.is_awaited && s != last_stage_[lane]) return;
  void* const end = group_ends_[lane][s] = record(messages);
  ticket_.group_ends.push_back({lane, s, end});
  if (s == last_stage_[lane]) ticket_.lane_ends[lane] = end;
}

void Queueing::queue_sums(std::int32_t s) {
  const Stage& stage = program_.stages[s];
  wait_for_groups(streams_.sums, stage.awaited_groups, sums_waited_);
  for (const Sum& sum : stage.sums) queue_sum(stage, sum);
  if (stage.sums_are_awaited) sums_ends_[s] = record(streams_.sums);
}

void Queueing::queue_sum(const Stage& stage, const Sum& sum) {
  const std::size_t count = bytes(sum.first, sum.last) / size_of(call_.dtype);
  if (count == 0) return;
  std::byte* received = address(sum.received, sum.first);
  if (sum.received == Memory::scratch) {
    const Transfer& message = stage.receives[sum.receive];
    received = landing(stage, sum.receive) + bytes(message.first, sum.first);
  }
  std::byte* const out = address(sum.out, sum.first);
  std::byte* const also = address(sum.also, sum.first);
  const CudaReduction& reduction = device_.reduction();
  const double scale = sum.callers ? scale_ : 1;
  if (sum.held != Memory::none) {
    reduction.combine(out, also, received, address(sum.held, sum.first), count, call_.dtype,
                      call_.op, scale, streams_.sums);
    return;
  }
  reduction.scale_copy(out, received, count, call_.dtype, scale, streams_.sums);
  if (also) reduction.scale_copy(also, received, count, call_.dtype, scale, streams_.sums);
}

// The result is at home once the groups that touch it, and all sums so far, are over.
void Queueing::queue_result() {
  wait_for_groups(streams_.sums, program_.result_groups, sums_waited_);
  if (call_.op == Op::avg && program_.divides && call_.count > 0) {
    device_.reduction().divide(call_.home, call_.count, call_.dtype, program_.ranks, streams_.sums);
  }
  ticket_.result = record(streams_.sums);
}

std::byte* Queueing::address(Memory memory, std::int32_t first) const {
  if (memory == Memory::home) return static_cast<std::byte*>(call_.home) + offsets_[first];
  if (memory == Memory::shadow) return streams_.shadow.address() + offsets_[first];
  return nullptr;
}

std::vector<std::size_t> Queueing::landings(const Stage& stage) const {
  std::vector<std::size_t> begins{0};
  for (const Transfer& receive : stage.receives) {
    const std::size_t size =
        receive.memory == Memory::scratch ? bytes(receive.first, receive.last) : 0;
    begins.push_back(begins.back() + (size + alignment - 1) / alignment * alignment);
  }
  return begins;
}

std::byte* Queueing::landing(const Stage& stage, std::int32_t receive) const {
  return streams_.scratch.address() + region_bytes_ * stage.region + landings_[receive];
}

}  // namespace

void queue_collective(Streams& streams, StreamTicket& ticket) { Queueing(streams, ticket).run(); }

}  // namespace patallreduce::gpu
