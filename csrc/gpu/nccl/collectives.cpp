#include "gpu/nccl/collectives.h"

#include <algorithm>

#include "clock.h"
#include "errors.h"
#include "gpu/nccl/culprit.h"
#include "gpu/nccl/queue_collective.h"

namespace patallreduce::gpu {

using reduction::name;

std::shared_ptr<StreamTicket> StreamCollectives::submit(const StreamCall& call) {
  const int rank = streams_.rank();
  PATR_CHECK(call.home != nullptr || call.count == 0, std::invalid_argument, "rank ", rank,
             ": expected memory for ", call.count, " elements, got none");
  streams_.device->refuse_capture(call.producer, rank);
  auto ticket = std::make_shared<StreamTicket>();
  ticket->call = call;
  ticket->deadline_s = now_s() + call.timeout_s;
  ticket->arrival = streams_.events.take();
  ticket->events.push_back(ticket->arrival);
  streams_.device->record(ticket->arrival, call.producer);
  submitted_.push_back(ticket);
  return ticket;
}

StreamCollectives::Tickets::const_iterator StreamCollectives::find_submitted(
    const StreamTicket& ticket) const {
  return std::find_if(submitted_.begin(), submitted_.end(),
                      [&](const auto& one) { return one.get() == &ticket; });
}

void StreamCollectives::check_fits(const StreamTicket& ticket, const StreamProgram& program) const {
  const StreamCall& call = ticket.call;
  const int rank = streams_.rank(), ranks = streams_.ranks();
  PATR_CHECK(program.rank == rank && program.ranks == ranks, std::invalid_argument,
             "expected a program of rank ", rank, " of ", ranks, ", got one of rank ", program.rank,
             " of ", program.ranks);
  const int lanes = int(streams_.lanes.size());
  PATR_CHECK(program.lanes <= lanes, std::invalid_argument, "rank ", rank,
             ": expected a program of at most ", lanes, " lanes, got one of ", program.lanes);
  PATR_CHECK(program.scales == call.scales(), std::invalid_argument, "rank ", rank, ": ",
             name(call.op), " of ", name(call.dtype),
             " needs a program with scales = ", call.scales());
  PATR_CHECK(find_submitted(ticket) != submitted_.end(), std::invalid_argument, "rank ", rank,
             ": expected a collective that is not queued yet");
}

void StreamCollectives::queue(StreamTicket& ticket, std::shared_ptr<const StreamProgram> program) {
  const auto found = find_submitted(ticket);
  ticket.program = std::move(program);
  ticket.number = next_number_++;
  in_flight_.push_back(*found);
  submitted_.erase(found);
  queue_collective(streams_, ticket);
  ticket.queued = true;
}

void StreamCollectives::withdraw(StreamTicket& ticket) noexcept {
  const auto found = find_submitted(ticket);
  if (found == submitted_.end()) return;
  streams_.take_back(ticket.events);
  submitted_.erase(found);
}

bool StreamCollectives::finds_result(StreamTicket& ticket) const {
  if (!ticket.has_result && ticket.result && streams_.device->done(ticket.result)) {
    ticket.has_result = true;
    note_times(now_s());  // who has waited for it may ask when it came
  }
  return ticket.has_result;
}

void StreamCollectives::find_results() const {
  for (const auto& ticket : in_flight_) finds_result(*ticket);
}

void StreamCollectives::look(double now, double patience_s) {
  note_times(now);
  // Collectives end in the order in which they were queued.
  while (!in_flight_.empty() && has_drained(*in_flight_.front())) {
    retire(*in_flight_.front());
    in_flight_.pop_front();
  }
  check_nccl(now, patience_s);
  check_deadlines(now, patience_s);
}

void StreamCollectives::note_times(double now) const {
  const Device& device = *streams_.device;
  for (const Tickets* const tickets : {&submitted_, &in_flight_}) {
    for (const auto& ticket : *tickets) {
      if (ticket->arrival_s == 0 && device.done(ticket->arrival)) ticket->arrival_s = now;
      if (ticket->finish_s == 0 && ticket->queued && device.done(ticket->result)) {
        ticket->finish_s = now;
      }
    }
  }
}

bool StreamCollectives::has_drained(const StreamTicket& ticket) const {
  const Device& device = *streams_.device;
  return device.done(ticket.sums_end) &&
         std::all_of(ticket.lane_ends.begin(), ticket.lane_ends.end(),
                     [&](void* end) { return !end || device.done(end); });
}

void StreamCollectives::retire(StreamTicket& ticket) {
  ticket.has_result = ticket.drained = true;
  const double now = now_s();
  if (ticket.arrival_s == 0) ticket.arrival_s = now;
  if (ticket.finish_s == 0) ticket.finish_s = now;
  streams_.take_back(ticket.events);
  ticket.arrival = ticket.result = ticket.sums_end = nullptr;
  ticket.group_ends.clear();
  ticket.lane_ends.clear();
}

void StreamCollectives::check_nccl(double now, double patience_s) {
  if (!nccl_error_) {
    try {
      streams_.check();
    } catch (const TransportError&) {
      nccl_error_ = std::current_exception();
      nccl_error_s_ = now;
    }
  }
  if (nccl_error_ && now >= nccl_error_s_ + patience_s) std::rethrow_exception(nccl_error_);
}

void StreamCollectives::check_deadlines(double now, double patience_s) const {
  const int own = streams_.rank();
  for (const auto& ticket : in_flight_) {
    if (now < ticket->deadline_s) continue;
    const Culprit culprit = culprit_of(*in_flight_.front(), *streams_.device, own);
    // The rank that holds all others up says so first.
    if (culprit.rank != own && now < ticket->deadline_s + patience_s) continue;
    throw TransportTimeout(concat("collective ", ticket->number, " did not end within ",
                                  ticket->call.timeout_s, " s: ", culprit.why),
                           culprit.rank);
  }
}

void StreamCollectives::release(bool hangs) noexcept {
  for (Tickets* const tickets : {&submitted_, &in_flight_}) {
    for (const auto& ticket : *tickets) {
      streams_.take_back(ticket->events);
      ticket->drained = true;
    }
    tickets->clear();
  }
  streams_.release(hangs);
}

}  // namespace patallreduce::gpu
