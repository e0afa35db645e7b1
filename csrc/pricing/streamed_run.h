// One run of pricing/streamed.h: all ranks' state, and what happens to it.
//
// streamed.cpp has the order of events, streamed_steps.cpp what becomes of a rank's steps,
// streamed_ports.cpp how messages leave.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "errors.h"
#include "pricing/channels.h"
#include "pricing/events.h"
#include "pricing/flows.h"
#include "pricing/streamed.h"
#include "pricing/window.h"

namespace patallreduce::pricing {

using schedule::Steps;
using schedule::StepSource;

class StreamedRun {
 public:
  // A rank turned out to receive from two others, so ranks cannot be run one after the other.
  struct SecondSender {};

  StreamedRun(const StepSource& source, std::uint64_t message_bytes, const Network& network,
              const std::vector<double>& arrivals_s, bool records, bool by_rank);

  Account run();

 private:
  struct ReadySend {
    double since_s;
    std::int32_t step;
  };

  struct Hint {  // the channel of the last peer
    std::int32_t peer = -1, channel = -1;
  };

  struct RankState {
    Window window;
    RankEvents events;  // only where ranks are run one by one
    double receives_until_s = -HUGE_VAL;
    double works_until_s = -HUGE_VAL;
    double finish_s = -HUGE_VAL;
    std::int32_t sender = -1;  // of all messages to it; -1: none yet
    bool sending = false;
    bool arrived = false;
    std::vector<ReadySend> ready;  // from `next` on
    std::size_t next = 0;
    std::vector<std::int32_t> before_arrival;  // ready, but for the arrival
    int next_block = 0;
    std::int32_t last_begin = 0;  // where the last generated block begins
    std::int32_t unknown = 0;     // messages that are here and whose receives are not generated
    bool in_last_block = false;   // a receive there has happened: its sends may be in the next
    std::int32_t waiting =
        0;  // steps in the window that have lined up for neither port nor processor
    Hint out, in;
    // Records of what last used the port, the processor, and made the result.
    std::int32_t send_record = -1, receive_record = -1, work_record = -1, finish_record = -1;
    std::int32_t done_record = -1;  // of the last step that was done
  };

  struct Record {
    std::int32_t rank, step, cause;
    double done_s;
  };

  struct Uplink {
    double out_until_s = -HUGE_VAL, in_until_s = -HUGE_VAL;
    std::int32_t out_record = -1, in_record = -1;
  };

  struct Line {  // of messages from one rank to another
    bool sending = false;
    std::vector<ReadySend> ready;  // from `next` on
    std::size_t next = 0;
  };

  void run_rank_by_rank();
  std::vector<std::int32_t> behind_senders() const;
  void happen(const Event& event);
  void find_critical_path();
  void check_end();

  void refill(std::int32_t rank);
  void check_step(std::int32_t rank, std::int32_t first, std::size_t i) const;
  void connect(std::int32_t rank, std::int32_t n);
  void meet(Channel& channel, std::int32_t number, LiveStep& step);
  void call(std::int32_t rank);
  void arrive(std::int32_t rank);
  void become_ready(std::int32_t rank, std::int32_t n);
  void land(std::int32_t c, std::int32_t number);
  void deliver(std::int32_t c, std::int32_t number);
  void take(std::int32_t rank, std::int32_t n);
  void complete(std::int32_t rank, std::int32_t n);

  void line_up(std::int32_t rank, std::int32_t n);
  void send_next(std::int32_t rank);
  void send(std::int32_t rank, std::int32_t n, double since_s);
  void line_up_for_peer(RankState& state, std::int32_t rank, std::int32_t n);
  bool fill_slot(std::int32_t rank, std::int32_t n);
  void leave(std::int32_t rank, std::int32_t n);
  void start_flow(std::int32_t rank, std::int32_t n);
  void end_flow();
  void leave_next(std::int32_t rank, std::int32_t channel, std::int32_t cause);
  double through_uplinks(std::int32_t rank, LiveStep& step, double start_s, double bytes);

  double arrival_s(std::int32_t rank) const { return arrivals_s_.empty() ? 0 : arrivals_s_[rank]; }

  void push(std::int32_t rank, double at_s, What what, std::int32_t where, std::int32_t which) {
    const std::uint64_t order = static_cast<std::uint64_t>(what) << what_shift | found_++;
    if (by_rank_) {
      ranks_[rank].events.push(what, at_s, order, where, which);
    } else {
      events_.push(at_s, order, where, which);
    }
  }

  // The processor's turn: until when it works. `cause` becomes what it had to wait for.
  double work(std::int32_t rank, double seconds, std::int32_t& cause) {
    RankState& state = ranks_[rank];
    if (state.works_until_s > now_s_) cause = state.work_record;
    state.works_until_s = std::max(now_s_, state.works_until_s) + seconds;
    state.work_record = cause;
    account_.works_s[rank] += seconds;
    return state.works_until_s;
  }

  std::int32_t model_of(std::int32_t rank) const {
    return network_.model_of.empty() ? 0 : network_.model_of[rank];
  }

  const Cost& cost_of(std::int32_t from, std::int32_t to, double bytes) {
    if (!alike_ || bytes != cost_bytes_) {
      cost_ = cost(network_, from, to, bytes);
      cost_bytes_ = bytes;
    }
    return cost_;
  }

  // Segments as the executor cuts them, but for its alignment.
  std::uint64_t begin(std::int32_t segment) const {
    return static_cast<std::uint64_t>(static_cast<unsigned __int128>(message_bytes_) *
                                      static_cast<unsigned>(segment) /
                                      static_cast<unsigned>(segments_));
  }

  template <typename Range>
  double bytes_of(const Range& range) const {
    if (equal_segments_) return segment_bytes_ * (range.last - range.first);
    return static_cast<double>(begin(range.last) - begin(range.first));
  }

  std::int32_t recorded(std::int32_t rank, std::int32_t step, std::int32_t cause, double done_s) {
    if (!records_wanted_) return -1;
    PATR_CHECK(records_.size() < (1u << 31) - 1, ScheduleError,
               "critical path: expected fewer than 2^31 steps");
    records_.push_back({rank, step, cause, done_s});
    return static_cast<std::int32_t>(records_.size()) - 1;
  }

  // Behind what was ready earlier; ties in program order.
  void insert(std::vector<ReadySend>& ready, std::size_t first, std::int32_t n) const {
    ready.push_back({now_s_, n});
    for (std::size_t i = ready.size() - 1;
         i > first && ready[i - 1].since_s == now_s_ && ready[i - 1].step > n; --i) {
      std::swap(ready[i - 1], ready[i]);
    }
  }

  const StepSource& source_;
  const Network& network_;
  const std::vector<double>& arrivals_s_;
  const std::uint64_t message_bytes_;
  const std::int32_t count_, segments_;
  const int blocks_;
  const double segment_bytes_;
  const bool equal_segments_;
  const bool alike_;   // one cost for all pairs of ranks
  const bool shared_;  // ports, by all messages through them
  const bool records_wanted_;
  const bool by_rank_;
  bool running_ = false;
  double now_s_ = 0;
  std::uint64_t found_ = 0;
  Conflicts conflicts_;
  std::size_t written_words_;
  std::vector<std::uint64_t> written_;  // per rank a bit per segment: some step so far writes it
  std::vector<RankState> ranks_;
  Flows flows_;
  std::vector<Line> lines_;  // by channel
  Channels channels_;
  EventHeap events_;
  std::vector<Uplink> uplinks_;                          // per node
  Uplink *uplink_out_ = nullptr, *uplink_in_ = nullptr;  // that the message takes
  std::vector<double> reduce_bytes_per_s_;               // by model
  double cost_bytes_ = -1;
  Cost cost_{};
  std::vector<Record> records_;
  Steps block_;
  std::int32_t longest_block_ = 0;
  std::vector<std::int32_t> starters_;
  Account account_;
};

}  // namespace patallreduce::pricing
