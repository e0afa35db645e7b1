#include "gpu/nccl/executor.h"

#include <algorithm>
#include <chrono>

#include "clock.h"
#include "errors.h"
#include "gpu/nccl/queueing.h"

namespace patallreduce::gpu {

using reduction::is_floating;
using reduction::Op;

namespace {

void sleep_s(double seconds) {
  std::this_thread::sleep_for(std::chrono::duration<double>(seconds));
}

}  // namespace

StreamExecutor::StreamExecutor(std::unique_ptr<StreamDevice> device,
                               std::vector<std::unique_ptr<Nccl>> nccl, StreamOwner owner)
    : device_(std::move(device)), owner_(std::move(owner)) {
  PATR_CHECK(!nccl.empty(), std::invalid_argument, "streams: expected lanes, got none");
  for (auto& peers : nccl) lanes_.push_back({std::move(peers)});
  for (Lane& lane : lanes_) lane.messages = device_->create_stream();
  sums_ = device_->create_stream();
  watcher_ = std::thread([this] { watch(); });
}

StreamExecutor::~StreamExecutor() { close(0); }

void StreamExecutor::connect(double timeout_s) {
  if (ranks() == 1) return;
  std::lock_guard lock(mutex_);
  PATR_CHECK(in_flight_.empty(), std::invalid_argument, "rank ", rank(),
             ": connect comes before the first collective");
  for (Lane& lane : lanes_) connect_lane(lane, timeout_s);
}

void StreamExecutor::connect_lane(Lane& lane, double timeout_s) {
  const double deadline_s = now_s() + timeout_s;
  const std::size_t each = 256;  // bytes apart: the peers' messages of one byte do not share a line
  provide(scratch_, 2 * each * ranks());
  void* const event = take_event();
  free_events_.push_back(event);  // nobody else takes it before the lock is given up
  std::vector<NcclMessage> sends, receives;
  for (int peer = 0; peer < ranks(); ++peer) {
    if (peer == rank()) continue;
    sends.push_back({peer, scratch_.memory + each * peer, 1});
    receives.push_back({peer, scratch_.memory + each * (ranks() + peer), 1});
  }
  try {
    lane.nccl->group(sends, receives, lane.messages, deadline_s);
    device_->record(event, lane.messages);
    while (!device_->done(event)) {
      lane.nccl->check();
      PATR_CHECK(now_s() < deadline_s, TransportTimeout, "rank ", rank(),
                 ": not all ranks connected within ", timeout_s, " s");
      sleep_s(100e-6);
    }
  } catch (...) {
    fail(std::current_exception());
    throw;
  }
}

std::shared_ptr<StreamTicket> StreamExecutor::arrive(StreamCall call) {
  std::lock_guard lock(mutex_);
  if (failure_) std::rethrow_exception(failure_);
  PATR_CHECK(!closed_, TransportError, "rank ", rank(), ": the communicator is closed");
  PATR_CHECK(call.home != nullptr || call.count == 0, std::invalid_argument, "rank ", rank(),
             ": expected memory for ", call.count, " elements, got none");
  device_->refuse_capture(call.producer, rank());
  auto ticket = std::make_shared<StreamTicket>();
  ticket->call = call;
  ticket->deadline_s = now_s() + call.timeout_s;
  ticket->arrival = take_event();
  ticket->events.push_back(ticket->arrival);
  device_->record(ticket->arrival, call.producer);
  called_.push_back(ticket);
  changed_.notify_all();
  return ticket;
}

void StreamExecutor::queue(StreamTicket& ticket, std::shared_ptr<const StreamProgram> program) {
  std::lock_guard lock(mutex_);
  if (failure_) std::rethrow_exception(failure_);
  const StreamCall& call = ticket.call;
  PATR_CHECK(program->rank == rank() && program->ranks == ranks(), std::invalid_argument,
             "expected a program of rank ", rank(), " of ", ranks(), ", got one of rank ",
             program->rank, " of ", program->ranks);
  PATR_CHECK(program->lanes <= lanes(), std::invalid_argument, "rank ", rank(),
             ": expected a program of at most ", lanes(), " lanes, got one of ", program->lanes);
  const bool scales = call.op == Op::avg && is_floating(call.dtype);
  PATR_CHECK(program->scales == scales, std::invalid_argument, "rank ", rank(), ": ", name(call.op),
             " of ", name(call.dtype), " needs a program with scales = ", scales);
  const auto found = find_called(ticket);
  PATR_CHECK(found != called_.end(), std::invalid_argument, "rank ", rank(),
             ": expected a collective that is not queued yet");
  ticket.program = std::move(program);
  ticket.number = next_number_++;
  in_flight_.push_back(std::move(*found));
  called_.erase(found);
  try {
    Queueing(*this, ticket).run();
  } catch (...) {
    fail(std::current_exception());
    throw;
  }
  ticket.queued = true;
  changed_.notify_all();
}

std::deque<std::shared_ptr<StreamTicket>>::iterator StreamExecutor::find_called(
    const StreamTicket& ticket) {
  return std::find_if(called_.begin(), called_.end(),
                      [&](const auto& called) { return called.get() == &ticket; });
}

void StreamExecutor::withdraw(StreamTicket& ticket) noexcept {
  std::lock_guard lock(mutex_);
  const auto found = find_called(ticket);
  if (found == called_.end()) return;
  free_events_.push_back(ticket.arrival);
  ticket.events.clear();
  called_.erase(found);
}

void StreamExecutor::join(StreamTicket& ticket, void* stream) {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [&] { return ticket.queued || failure_ || closed_; });
  if (failure_ && !ticket.has_result) std::rethrow_exception(failure_);
  PATR_CHECK(ticket.queued, TransportError, "rank ", rank(), ": the communicator is closed");
  if (!ticket.drained) device_->wait(stream, ticket.result);
}

bool StreamExecutor::finds_result(StreamTicket& ticket) {
  if (!ticket.has_result && !failure_ && ticket.result) {
    ticket.has_result = device_->done(ticket.result);
  }
  return ticket.has_result;
}

bool StreamExecutor::wait(StreamTicket& ticket, double slice_s) {
  const double until_s = now_s() + slice_s;
  for (double pause_s = 20e-6;; pause_s = std::min(2 * pause_s, 1e-3)) {
    {
      std::lock_guard lock(mutex_);
      if (finds_result(ticket)) return true;
      if (failure_) std::rethrow_exception(failure_);
    }
    const double left_s = until_s - now_s();
    if (left_s <= 0) return false;
    sleep_s(std::min(pause_s, left_s));
  }
}

void StreamExecutor::throw_if_failed() {
  std::lock_guard lock(mutex_);
  if (failure_) std::rethrow_exception(failure_);
}

bool StreamExecutor::failed() {
  std::lock_guard lock(mutex_);
  return failure_ != nullptr;
}

void* StreamExecutor::take_event() {
  if (free_events_.empty()) {
    free_events_.push_back(device_->create_event());
    ++event_count_;
  }
  void* const event = free_events_.back();
  free_events_.pop_back();
  return event;
}

// What is outgrown may still be in use, and giving it back would wait for the device. Powers of two
// keep it smaller than what took its place.
//
// Allocating may wait for the device, too, whose kernels may wait for other ranks. That ends: all
// that this rank has queued then belongs to earlier collectives (or is the caller's, and waits for
// those at most), nothing of this one is half queued, and ranks queue collectives in one order. So
// of the lowest collective that is not over everywhere, a rank that has yet to queue it has only
// collectives on its device that are over, and its own allocation returns.
void StreamExecutor::provide(Block& block, std::size_t bytes) {
  if (bytes <= block.bytes) return;
  std::size_t rounded = 1 << 16;
  while (rounded < bytes) rounded *= 2;
  if (block.memory) outgrown_.push_back(block);
  block = {};
  block = {static_cast<std::byte*>(device_->allocate(rounded)), rounded};
}

std::size_t StreamExecutor::memory_bytes() {
  std::lock_guard lock(mutex_);
  std::size_t all = scratch_.bytes + shadow_.bytes;
  for (const Block& block : outgrown_) all += block.bytes;
  return all;
}

std::size_t StreamExecutor::events() {
  std::lock_guard lock(mutex_);
  return event_count_;
}

}  // namespace patallreduce::gpu
