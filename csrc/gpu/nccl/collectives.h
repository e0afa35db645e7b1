// The collectives on a GPU's streams that are not over: their order, what they have reached, and
// whether one of them hangs. Not thread-safe.
#pragma once

#include <deque>
#include <exception>
#include <memory>
#include <utility>
#include <vector>

#include "gpu/nccl/streams.h"
#include "gpu/nccl/ticket.h"

namespace patallreduce::gpu {

class StreamCollectives {
 public:
  StreamCollectives(std::unique_ptr<Device> device,
                    std::vector<std::unique_ptr<NcclCommunicator>> nccl)
      : streams_(std::move(device), std::move(nccl)) {}

  // Records the arrival. Throws std::invalid_argument for a stream of which a graph is being made.
  std::shared_ptr<StreamTicket> submit(const StreamCall& call);
  // Throws std::invalid_argument if the program is not one for this ticket and these streams.
  void check_fits(const StreamTicket& ticket, const StreamProgram& program) const;
  // After a failure part of it may be queued.
  void queue(StreamTicket& ticket, std::shared_ptr<const StreamProgram> program);
  void withdraw(StreamTicket& ticket) noexcept;

  // Whether the result has been seen, or is now.
  bool finds_result(StreamTicket& ticket) const;
  // As finds_result, of all in flight.
  void find_results() const;
  // Notes times and takes back what has ended. Throws an error of NCCL `patience_s` after it was
  // first seen, and TransportTimeout for a collective that has not ended by its deadline: as long
  // after it, unless this rank is to blame.
  void look(double now, double patience_s);

  bool none_in_flight() const { return in_flight_.empty(); }
  bool empty() const { return submitted_.empty() && in_flight_.empty(); }
  Streams& streams() { return streams_; }
  const Streams& streams() const { return streams_; }
  // Forgets all and destroys the streams, see Streams.
  void release(bool hangs) noexcept;

 private:
  using Tickets = std::deque<std::shared_ptr<StreamTicket>>;

  Tickets::const_iterator find_submitted(const StreamTicket& ticket) const;
  void note_times(double now) const;
  bool has_drained(const StreamTicket& ticket) const;
  void retire(StreamTicket& ticket);
  void check_nccl(double now, double patience_s);
  void check_deadlines(double now, double patience_s) const;

  Streams streams_;
  Tickets submitted_;  // not queued yet
  Tickets in_flight_;  // queued
  std::uint64_t next_number_ = 0;
  std::exception_ptr nccl_error_;  // reported by NCCL, which does not say who is behind it
  double nccl_error_s_ = 0;        // first seen
};

}  // namespace patallreduce::gpu
