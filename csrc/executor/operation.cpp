#include "executor/operation.h"

#include <algorithm>

#include "errors.h"
#include "schedule/offsets.h"

namespace patallreduce::executor {

using schedule::segment_offsets;
using schedule::Verb;

namespace {

// Receives posted ahead while busy: enough to hide a round trip, small enough for a 2 MiB cache.
constexpr std::size_t window_bytes = 1 << 20;

// A tag is signature (22 bits), sequence number (10), message (18).
constexpr int seq_bits = 10;
constexpr int signature_bits = 22;

}  // namespace

Operation::Operation(std::uint64_t seq, Call call, std::shared_ptr<const Program> program,
                     int place, Transport& transport, Scratch& scratch)
    : seq_(seq),
      call_(std::move(call)),
      program_(std::move(program)),
      transport_(transport),
      arithmetic_(scratch.arithmetic()),
      signature_((hash(call_) ^ (seq >> seq_bits) * 0x9e3779b97f4a7c15) >> (64 - signature_bits)),
      place_(place),
      places_(place < 0 ? 0 : transport.ranks(), -1),
      // What a transport says of speed is about the processor's memory.
      early_out_(place >= 0 || !call_.key.arrivals_s.empty() ||
                 program_->result == Result::elsewhere || call_.carrier != Carrier::host ||
                 !transport.sends_at_memory_speed()),
      scale_(1),
      divisor_(1),
      values_(program_->segments, scratch),
      needed_left_(program_->needed_count),
      steps_left_(program_->steps.size()) {
  const bool integer = call_.dtype >= Dtype::int32;
  if (call_.op == Op::avg && integer) divisor_ = transport.ranks();
  if (call_.op == Op::avg && !integer) scale_ = 1.0 / transport.ranks();
  const std::size_t steps = program_->steps.size();
  offsets_ =
      segment_offsets(call_.count, size_of(call_.dtype), program_->segments, program_->blocks);
  touches_left_.assign(program_->touches.begin(), program_->touches.end());
  state_.assign(steps, State::waiting);
  waits_ = program_->order.waits;
  piece_of_.assign(steps, -1);
}

std::size_t Operation::bytes_of(std::int32_t step) const {
  const Step& s = program_->steps[step];
  return begin(s.last) - begin(s.first);
}

int Operation::peer(std::int32_t step) const {
  const std::int32_t peer = program_->steps[step].peer;
  return places_.empty() ? peer : places_[peer];
}

Token Operation::token(std::int32_t step) const {
  return (seq_ & 0xffffffff) << 32 | static_cast<std::uint32_t>(step);
}

std::uint64_t Operation::tag(std::int32_t step) const {
  const std::uint64_t seq = seq_ & ((1u << seq_bits) - 1);
  return (signature_ << seq_bits | seq) << message_bits |
         static_cast<std::uint32_t>(program_->order.message[step]);
}

void Operation::bind_place(const Place& place) {
  places_[place.place] = place.rank;
  ready_.insert(ready_.end(), before_peer_.begin(), before_peer_.end());
  before_peer_.clear();
  if (!admitted_) return;
  run();
  post_receives(false);
}

void Operation::admit() {
  admitted_ = true;
  for (const std::int32_t step : program_->starters) ready_.push_back(step);
  run();
  post_receives(false);
}

void Operation::arrive(void* data) {
  alignas(8) static std::byte nothing;  // an empty tensor has no address
  data_ = call_.count > 0 ? static_cast<std::byte*>(data) : &nothing;
  arrived_ = true;
  if (program_->steps.empty()) {
    if (scale_ != 1) {
      arithmetic_.scale_copy(data_, data_, call_.count, call_.dtype, scale_);
      arithmetic_.finish();
    }
    return;
  }
  for (int s = 0; s < program_->segments; ++s) values_.begin_with(s, data_ + begin(s), scale_ == 1);
  for (const std::int32_t step : before_arrival_) ready_.push_back(step);
  before_arrival_.clear();
  if (!admitted_) return;
  run();
  post_receives(false);
}

void Operation::finished(std::int32_t step) {
  const Step& s = program_->steps[step];
  if (s.verb == Verb::send) {
    values_.release(piece_of_[step]);
    complete(step);
  } else if (piece_of_[step] < 0) {  // straight into the caller's memory
    for (int segment = s.first; segment < s.last; ++segment)
      values_.set(segment, -1, data_ + begin(segment));
    divide_received(s);
    arithmetic_.finish();
    complete(step);
  } else {
    receiving_bytes_ -= bytes_of(step);
    state_[step] = State::landed;
    if (waits_[step] == 0) ready_.push_back(step);
  }
  run();
  post_receives(false);
}

void Operation::post_receives(bool all) {
  if (!admitted_) return;
  const auto& recvs = program_->recvs;
  for (; next_recv_ < recvs.size(); ++next_recv_) {
    const std::int32_t step = recvs[next_recv_];
    if (lands_directly(step) || is_skipped(step)) continue;
    if (peer(step) < 0) return;  // messages of one peer, in order: none behind it can come either
    // A result depends on this rank's contribution: before its arrival none can come.
    if (program_->last_write[step] && program_->steps[step].verb == Verb::recv && !arrived())
      return;
    const std::size_t bytes = bytes_of(step);
    if (!all && receiving_bytes_ > 0 && receiving_bytes_ + bytes > window_bytes) return;
    piece_of_[step] = values_.take(bytes);
    receiving_bytes_ += bytes;
    transport_.recv(peer(step), tag(step), values_.memory(piece_of_[step]), bytes, token(step));
    state_[step] = State::posted;
  }
}

// A segment can be empty when a message has few elements; then its messages are left out on both
// sides. The messages of an empty message are sent: they are how ranks find that they disagree.
bool Operation::is_skipped(std::int32_t step) const {
  return bytes_of(step) == 0 && call_.count > 0;
}

// The result of a segment that this rank does not pass on, or not from private memory. It cannot
// come before this rank's own contribution has left, so nothing is lost by posting it then.
bool Operation::lands_directly(std::int32_t step) const {
  return program_->steps[step].verb == Verb::recv && program_->last_write[step] &&
         !(early_out_ && program_->sent_later[step]);
}

void Operation::run() {
  while (!ready_.empty()) {
    const std::int32_t step = ready_.front();
    ready_.pop_front();
    if (!try_step(step)) continue;
    complete(step);
  }
}

// Runs a step whose earlier steps are done. True if it is complete at once.
bool Operation::try_step(std::int32_t step) {
  const Verb verb = program_->steps[step].verb;
  if (is_skipped(step)) return true;
  if (verb == Verb::send) return start_send(step);
  const bool landed = state_[step] == State::landed;
  if (!landed && !lands_directly(step)) return false;  // finished() brings it back
  const bool needs_arrival = verb == Verb::recv_reduce || program_->last_write[step];
  if (needs_arrival && !arrived()) {
    before_arrival_.push_back(step);
    return false;
  }
  if (!landed) {
    if (peer(step) < 0)
      before_peer_.push_back(step);
    else
      start_direct_recv(step);
    return false;
  }
  if (verb == Verb::recv_reduce)
    apply_recv_reduce(step);
  else
    apply_recv(step);
  return true;
}

bool Operation::start_send(std::int32_t step) {
  if (peer(step) < 0) {
    before_peer_.push_back(step);
    return false;
  }
  const Step& s = program_->steps[step];
  // One message needs one stretch of memory, scaled. It nearly always is one already.
  bool together = true, present = true;
  for (int segment = s.first; segment < s.last; ++segment) {
    const Value& value = values_[segment];
    present = present && value.memory != nullptr;
    together = together && value.scaled && value.piece == values_[s.first].piece &&
               value.memory == values_[s.first].memory + (begin(segment) - begin(s.first));
  }
  if (!present) {
    before_arrival_.push_back(step);
    return false;
  }
  if (!together) {
    const std::int32_t piece = values_.take(bytes_of(step));
    std::byte* memory = values_.memory(piece);
    for (int segment = s.first; segment < s.last; ++segment) {
      std::byte* to = memory + (begin(segment) - begin(s.first));
      const std::size_t bytes = begin(segment + 1) - begin(segment);
      arithmetic_.scale_copy(to, values_[segment].memory, bytes / size_of(call_.dtype), call_.dtype,
                             values_[segment].scaled ? 1 : scale_);
    }
    arithmetic_.finish();  // before what it reads is given back
    for (int segment = s.first; segment < s.last; ++segment)
      values_.set(segment, piece, memory + (begin(segment) - begin(s.first)));
    values_.release(piece);
  }
  const Value& value = values_[s.first];
  piece_of_[step] = value.piece;
  values_.hold(value.piece);
  state_[step] = State::posted;
  transport_.send(peer(step), tag(step), value.memory, bytes_of(step), token(step));
  return false;
}

void Operation::start_direct_recv(std::int32_t step) {
  const Step& s = program_->steps[step];
  state_[step] = State::posted;
  transport_.recv(peer(step), tag(step), data_ + begin(s.first), bytes_of(step), token(step));
}

void Operation::apply_recv_reduce(std::int32_t step) {
  const Step& s = program_->steps[step];
  const std::int32_t piece = piece_of_[step];
  std::byte* memory = values_.memory(piece);
  const bool result = program_->last_write[step];
  const bool keep = !result || (early_out_ && program_->sent_later[step]);
  for (int segment = s.first; segment < s.last; ++segment) {
    std::byte* received = memory + (begin(segment) - begin(s.first));
    std::byte* home = data_ + begin(segment);
    const std::size_t count = (begin(segment + 1) - begin(segment)) / size_of(call_.dtype);
    std::byte* out = keep ? received : home;
    const bool divides = result && divisor_ != 1;
    std::byte* also = result && keep && !divides ? home : nullptr;
    const Value& held = values_[segment];
    arithmetic_.combine(out, also, received, held.memory, count, call_.dtype, call_.op,
                        held.scaled ? 1 : scale_);
    if (divides) {
      arithmetic_.divide(out, count, call_.dtype, divisor_);
      if (keep) arithmetic_.copy(home, out, count * size_of(call_.dtype));
    }
  }
  arithmetic_.finish();  // before what it reads is given back
  for (int segment = s.first; segment < s.last; ++segment) {
    if (keep)
      values_.set(segment, piece, memory + (begin(segment) - begin(s.first)));
    else
      values_.set(segment, -1, data_ + begin(segment));
  }
  values_.release(piece);
}

void Operation::apply_recv(std::int32_t step) {
  const Step& s = program_->steps[step];
  const std::int32_t piece = piece_of_[step];
  std::byte* memory = values_.memory(piece);
  if (program_->last_write[step]) {
    arithmetic_.copy(data_ + begin(s.first), memory, bytes_of(step));
    divide_received(s);
    arithmetic_.finish();
  }
  for (int segment = s.first; segment < s.last; ++segment)
    values_.set(segment, piece, memory + (begin(segment) - begin(s.first)));
  values_.release(piece);
}

// A result of an all-reduce comes divided, the sum that a reduce's root is sent does not.
void Operation::divide_received(const Step& step) {
  if (program_->result != Result::here || divisor_ == 1) return;
  const std::size_t bytes = begin(step.last) - begin(step.first);
  arithmetic_.divide(data_ + begin(step.first), bytes / size_of(call_.dtype), call_.dtype,
                     divisor_);
}

void Operation::complete(std::int32_t step) {
  const Step& s = program_->steps[step];
  state_[step] = State::done;
  needed_left_ -= program_->needed[step];
  --steps_left_;
  for (int segment = s.first; segment < s.last; ++segment)
    if (--touches_left_[segment] == 0) values_.drop(segment);
  const Order& order = program_->order;
  for (auto i = order.unlocks_begin[step]; i < order.unlocks_begin[step + 1]; ++i) {
    const std::int32_t later = order.unlocks[i];
    if (--waits_[later] == 0) ready_.push_back(later);
  }
}

int Operation::waiting_for() const {
  for (const std::int32_t step : program_->recvs)
    if (state_[step] != State::done && state_[step] != State::landed) return peer(step);
  return -1;
}

Operation::Receive Operation::receiving() const {
  for (const std::int32_t step : program_->recvs)
    if (state_[step] != State::done && state_[step] != State::landed)
      return {step, state_[step] == State::posted ? peer(step) : -1};
  return {-1, -1};
}

int Operation::sending_to() const {
  for (std::size_t step = 0; step < state_.size(); ++step)
    if (program_->steps[step].verb == Verb::send && state_[step] != State::done)
      return peer(static_cast<std::int32_t>(step));
  return -1;
}

}  // namespace patallreduce::executor
