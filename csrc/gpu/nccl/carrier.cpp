#include "gpu/nccl/carrier.h"

#include <algorithm>
#include <chrono>
#include <shared_mutex>
#include <utility>

#include "clock.h"
#include "errors.h"

namespace patallreduce::gpu {

using executor::Carrier;
using executor::raise;
using executor::StreamQueue;

namespace {

// For the engine to learn of a rank that died, before NCCL's own words are passed on.
constexpr double patience_s = 1.0;

}  // namespace

// The engine must not own what it calls: its thread, or the one that watches the streams, would be
// the last to hold the carrier, and would end itself. So it owns this, which can be detached.
class NcclCarrier::EngineSide : public StreamQueue {
 public:
  explicit EngineSide(NcclCarrier& carrier) : carrier_(&carrier) {}

  // Waits for whoever is calling the carrier.
  void detach() {
    std::lock_guard lock(mutex_);
    carrier_ = nullptr;
  }
  void prepare(const ScheduleKey& key) override {
    std::shared_lock lock(mutex_);
    if (carrier_) carrier_->programs_.prepare(key);
  }
  void queue(void* data, const ScheduleKey& key) override {
    std::shared_lock lock(mutex_);
    PATR_CHECK(carrier_, std::runtime_error, "the streams ended with a collective pending");
    carrier_->queue(*static_cast<StreamTicket*>(data), key);
  }
  void note_settled() {
    std::shared_lock lock(mutex_);
    if (carrier_) carrier_->note_settled();
  }

 private:
  std::shared_mutex mutex_;  // guards this
  NcclCarrier* carrier_;
};

NcclCarrier::NcclCarrier(std::shared_ptr<Engine> engine, std::unique_ptr<Device> device,
                         std::vector<std::unique_ptr<NcclCommunicator>> nccl,
                         StreamPrograms::ScheduleOf schedule_of)
    : engine_(std::move(engine)),
      programs_(std::move(schedule_of), engine_->rank(), engine_->ranks(), int(nccl.size())),
      engine_side_(std::make_shared<EngineSide>(*this)),
      executor_(std::move(device), std::move(nccl),
                {[this] {
                   if (const auto failure = engine_->failure()) raise(*failure);
                 },
                 [this](std::exception_ptr failure) { engine_->abort(failure); }, patience_s}) {
  PATR_CHECK(engine_->rank() == executor_.rank() && engine_->ranks() == executor_.ranks(),
             std::invalid_argument, "streams: expected NCCL's rank ", engine_->rank(), " of ",
             engine_->ranks(), ", got rank ", executor_.rank(), " of ", executor_.ranks());
}

NcclCarrier::~NcclCarrier() {
  engine_side_->detach();
  close(0);
}

std::shared_ptr<NcclTicket> NcclCarrier::submit(void* home, Call call, void* producer,
                                                double timeout_s) {
  std::lock_guard lock(calling_mutex_);
  call.carrier = Carrier::streams;
  const StreamCall on_streams{home, call.count, call.dtype, call.op, producer, timeout_s};
  programs_.expect(on_streams.scales());
  auto ticket = std::make_shared<NcclTicket>();
  try {
    ticket->on_streams = executor_.submit(on_streams);
  } catch (const TransportError&) {
    rethrow();
  }
  try {
    ticket->in_engine =
        engine_->submit_on(engine_side_, ticket->on_streams.get(), std::move(call), timeout_s,
                           [side = engine_side_] { side->note_settled(); });
  } catch (...) {
    executor_.withdraw(*ticket->on_streams);
    throw;
  }
  {
    std::lock_guard settled_lock(settled_mutex_);
    unreported_.push_back(ticket);
  }
  settled_changed_.notify_all();  // it may be settled already
  return ticket;
}

std::shared_ptr<NcclTicket> NcclCarrier::next_done(double timeout_s) {
  std::unique_lock lock(settled_mutex_);
  const auto ready = [this] {
    return !unreported_.empty() && unreported_.front()->in_engine->done;
  };
  settled_changed_.wait_for(lock, std::chrono::duration<double>(timeout_s),
                            [&] { return closed_ || ready(); });
  if (!ready()) return nullptr;
  auto ticket = std::move(unreported_.front());
  unreported_.pop_front();
  return ticket;
}

void NcclCarrier::close(double timeout_s) {
  executor_.close(timeout_s);
  {
    std::lock_guard lock(settled_mutex_);
    closed_ = true;
  }
  settled_changed_.notify_all();
}

void NcclCarrier::note_settled() {
  {
    std::lock_guard lock(settled_mutex_);
  }  // whoever waits has looked before, or will look again
  settled_changed_.notify_all();
}

// The error of all ranks, where there is one, and else this rank's own.
void NcclCarrier::rethrow() const {
  if (const auto failure = engine_->failure()) raise(*failure);
  throw;
}

// Throws what the call failed with.
bool NcclCarrier::settled(const NcclTicket& ticket, double slice_s) {
  const Ticket& in_engine = *ticket.in_engine;
  {
    std::unique_lock lock(settled_mutex_);
    const auto done = [&] { return in_engine.done.load(std::memory_order_acquire); };
    if (!settled_changed_.wait_for(lock, std::chrono::duration<double>(slice_s), done)) {
      return false;
    }
  }
  if (in_engine.failure) raise(*in_engine.failure);
  return true;
}

void NcclCarrier::join(NcclTicket& ticket, void* stream) {
  while (!settled(ticket, 1)) {
  }
  try {
    executor_.join(*ticket.on_streams, stream);
  } catch (const TransportError&) {
    rethrow();
  }
}

bool NcclCarrier::wait(NcclTicket& ticket, double slice_s) {
  const double until_s = now_s() + slice_s;
  if (!settled(ticket, slice_s)) return false;
  try {
    return executor_.wait(*ticket.on_streams, std::max(until_s - now_s(), 0.0));
  } catch (const TransportError&) {
    rethrow();
  }
}

void NcclCarrier::queue(StreamTicket& ticket, const ScheduleKey& key) {
  const auto program = programs_.get(key, ticket.call.scales());
  try {
    executor_.queue(ticket, program);
  } catch (...) {
    // The engine is told by what the executor failed with, which may name another rank.
    if (!executor_.failed()) throw;
  }
}

}  // namespace patallreduce::gpu
