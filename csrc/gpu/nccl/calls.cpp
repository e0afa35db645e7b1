#include "gpu/nccl/calls.h"

#include <algorithm>
#include <chrono>
#include <shared_mutex>
#include <utility>

#include "clock.h"
#include "errors.h"

namespace patallreduce::gpu {

using executor::Call;
using executor::Carrier;
using executor::Engine;
using executor::raise;
using executor::StreamQueue;
using executor::Ticket;
using reduction::is_floating;
using reduction::Op;
using schedule::ScheduleKey;

namespace {

// For the engine to learn of a rank that died, before NCCL's own words are passed on.
constexpr double patience_s = 1.0;

}  // namespace

// The engine must not own what it calls: its thread, or the one that watches the streams, would be
// the last to hold it, and would end itself.
class StreamCalls::Door : public StreamQueue {
 public:
  explicit Door(StreamCalls& calls) : calls_(&calls) {}

  // Waits for who is inside.
  void shut() {
    std::lock_guard lock(mutex_);
    calls_ = nullptr;
  }
  void prepare(const ScheduleKey& key) override {
    std::shared_lock lock(mutex_);
    if (calls_) calls_->prepare(key);
  }
  void queue(void* data, const ScheduleKey& key) override {
    std::shared_lock lock(mutex_);
    PATR_CHECK(calls_, std::runtime_error, "the streams ended with a collective pending");
    calls_->queue(*static_cast<StreamTicket*>(data), key);
  }
  void note_settled() {
    std::shared_lock lock(mutex_);
    if (calls_) calls_->note_settled();
  }

 private:
  std::shared_mutex mutex_;  // guards this
  StreamCalls* calls_;
};

StreamCalls::StreamCalls(std::shared_ptr<Engine> engine, std::unique_ptr<StreamDevice> device,
                         std::vector<std::unique_ptr<Nccl>> nccl, ScheduleOf schedule_of)
    : engine_(std::move(engine)),
      schedule_of_(std::move(schedule_of)),
      door_(std::make_shared<Door>(*this)),
      executor_(std::move(device), std::move(nccl),
                {[this] {
                   if (const auto failure = engine_->failure()) raise(*failure);
                 },
                 [this](std::exception_ptr failure) { engine_->abort(failure); }, patience_s}) {
  PATR_CHECK(engine_->rank() == executor_.rank() && engine_->ranks() == executor_.ranks(),
             std::invalid_argument, "streams: expected NCCL's rank ", engine_->rank(), " of ",
             engine_->ranks(), ", got rank ", executor_.rank(), " of ", executor_.ranks());
}

StreamCalls::~StreamCalls() {
  door_->shut();
  close(0);
}

std::shared_ptr<StreamWork> StreamCalls::submit(void* home, Call call, void* producer,
                                                double timeout_s) {
  std::lock_guard lock(calling_mutex_);
  call.carrier = Carrier::streams;
  {
    std::lock_guard scales_lock(scales_mutex_);
    scales_.insert(call.op == Op::avg && is_floating(call.dtype));
  }
  auto work = std::make_shared<StreamWork>();
  try {
    work->stream_ticket =
        executor_.arrive({home, call.count, call.dtype, call.op, producer, timeout_s});
  } catch (const TransportError&) {
    rethrow();
  }
  try {
    work->engine_ticket = engine_->submit_on(door_, work->stream_ticket.get(), std::move(call),
                                             timeout_s, [door = door_] { door->note_settled(); });
  } catch (...) {
    executor_.withdraw(*work->stream_ticket);
    throw;
  }
  works_.push_back(work);
  if (work->engine_ticket->done) note_settled();  // refused
  return work;
}

std::shared_ptr<StreamWork> StreamCalls::next_done(double timeout_s) {
  const auto until = std::chrono::steady_clock::now() + std::chrono::duration<double>(timeout_s);
  for (;;) {
    std::uint64_t seen;
    {
      std::lock_guard lock(settled_mutex_);
      seen = settled_;
    }
    {
      std::lock_guard lock(calling_mutex_);
      if (!works_.empty() && works_.front()->engine_ticket->done) {
        auto work = std::move(works_.front());
        works_.pop_front();
        return work;
      }
    }
    std::unique_lock lock(settled_mutex_);
    settled_changed_.wait_until(lock, until, [&] { return settled_ != seen || closed_; });
    if (settled_ == seen) return nullptr;
  }
}

void StreamCalls::close(double timeout_s) {
  executor_.close(timeout_s);
  {
    std::lock_guard lock(settled_mutex_);
    closed_ = true;
  }
  settled_changed_.notify_all();
}

void StreamCalls::note_settled() {
  {
    std::lock_guard lock(settled_mutex_);
    ++settled_;
  }
  settled_changed_.notify_all();
}

// The error of all ranks, where there is one, and else this rank's own.
void StreamCalls::rethrow() const {
  if (const auto failure = engine_->failure()) raise(*failure);
  throw;
}

// Throws what it failed with.
bool StreamCalls::settled(const StreamWork& work, double until_s) {
  const Ticket& ticket = *work.engine_ticket;
  const auto until = std::chrono::steady_clock::now() +
                     std::chrono::duration_cast<std::chrono::steady_clock::duration>(
                         std::chrono::duration<double>(until_s - now_s()));
  {
    std::unique_lock lock(settled_mutex_);
    const auto done = [&] { return ticket.done.load(std::memory_order_acquire); };
    if (!settled_changed_.wait_until(lock, until, done)) return false;
  }
  if (ticket.failure) raise(*ticket.failure);
  return true;
}

void StreamCalls::join(StreamWork& work, void* stream) {
  while (!settled(work, now_s() + 1)) {
  }
  try {
    executor_.join(*work.stream_ticket, stream);
  } catch (const TransportError&) {
    rethrow();
  }
}

bool StreamCalls::wait(StreamWork& work, double slice_s) {
  const double until_s = now_s() + slice_s;
  if (!settled(work, until_s)) return false;
  try {
    return executor_.wait(*work.stream_ticket, std::max(until_s - now_s(), 0.0));
  } catch (const TransportError&) {
    rethrow();
  }
}

void StreamCalls::prepare(const ScheduleKey& key) {
  std::set<bool> scales;
  {
    std::lock_guard lock(scales_mutex_);
    scales = scales_;
  }
  for (const bool scale : scales) program(key, scale);
}

void StreamCalls::queue(StreamTicket& ticket, const ScheduleKey& key) {
  const StreamCall& call = ticket.call;
  const auto made = program(key, call.op == Op::avg && is_floating(call.dtype));
  try {
    executor_.queue(ticket, made);
  } catch (...) {
    // The engine is told by what the executor failed with, which may name another rank.
    if (!executor_.failed()) throw;
  }
}

std::shared_ptr<const StreamProgram> StreamCalls::program(const ScheduleKey& key, bool scales) {
  return programs_.get(key, scales, [&] {
    StreamProgramOptions options;
    options.scales = scales;
    // Who expects to be late has its result while it still sends, for a copy of what it sends.
    options.early_out = !key.arrivals_s.empty();
    // And takes in all that there is for it beforehand; ranks that come together need not.
    if (options.early_out) {
      options.lanes = executor_.lanes();
      options.regions = std::max(options.regions, key.segments);
    }
    return compile(schedule_of_(key, executor_.ranks()), executor_.rank(), options);
  });
}

}  // namespace patallreduce::gpu
