// Messages over UCX: segments by tag or by offer, control by active message.
#include <algorithm>
#include <cstddef>
#include <cstring>
#include <utility>

#include "errors.h"
#include "transport/ucx_request.h"

namespace patallreduce::transport {

namespace {

// Messages from this size on go to neighbours in one copy: it takes a system call that looks up the
// sender's pages, and an acknowledgement, which cost more than a second copy of what is shorter.
constexpr std::size_t direct_bytes = 32 * 1024;

constexpr int most_worker_turns = 10'000;

// A message is divided if each part has at least so many bytes: what TCP lets a connection carry
// that has just begun, or has rested, before it hears from the other end.
constexpr std::size_t part_bytes = 8 * 1024;

std::uint64_t of_sender(int sender, std::uint64_t number, int part = 0) {
  return static_cast<std::uint64_t>(part) << (sender_bits + number_bits) |
         static_cast<std::uint64_t>(sender) << number_bits | number;
}

struct ControlHeader {
  std::uint64_t number;  // with its sender
  std::uint64_t code;
};

struct Acknowledgement {
  std::uint64_t index;
  std::uint64_t generation;
};

}  // namespace

Ucx::Request* Ucx::new_request(RequestKind kind, int peer, std::uint64_t tag) {
  if (free_.empty()) {
    requests_.push_back(std::make_unique<Request>());
    requests_.back()->self = this;
    requests_.back()->index = requests_.size() - 1;
    free_.push_back(requests_.back().get());
  }
  Request* request = free_.back();
  free_.pop_back();
  ++request->generation;
  request->kind = kind;
  request->peer = peer;
  request->tag = tag;
  request->part = 0;
  return request;
}

// Ends the request unless something of it is still to come.
void Ucx::finish(Request* request) {
  if (request->handle || request->offered || request->divided || request->parts > 0) return;
  Request* const whole = std::exchange(request->whole, nullptr);
  const bool failed = std::exchange(request->failed, false);
  if (!whole && !failed && request->kind != RequestKind::control)
    events_.finished.push_back(request->token);
  request->kind = RequestKind::none;
  request->payload.clear();
  free_.push_back(request);
  if (!whole) return;
  whole->failed |= failed;
  --whole->parts;
  finish(whole);
}

// UCX returned `handle` for the request: pending, or complete at once.
void Ucx::start(Request* request, void* handle) {
  if (UCS_PTR_IS_PTR(handle))
    request->handle = handle;
  else
    end(request, UCS_PTR_STATUS(handle));
}

// UCX is done with the request.
void Ucx::end(Request* request, ucs_status_t status) {
  if (request->handle) ucx_.ucp_request_free(request->handle);
  request->handle = nullptr;
  if (status != UCS_OK) {
    fail(request);
    if (status != UCS_ERR_CANCELED) lose(*peers_[request->peer], ucx_.ucs_status_string(status));
  } else if (request->kind == RequestKind::recv && (request->offered || request->divided)) {
    announced_.push_back(request);
  }
  finish(request);
}

void Ucx::fail(Request* request) {
  request->failed = true;
  request->offered = request->divided = false;
}

void Ucx::lose(Peer& peer, const std::string& reason) {
  if (peer.lost || abandoned_) return;
  peer.lost = true;
  events_.lost.push_back({peer.rank, reason});
}

void Ucx::on_send(void*, ucs_status_t status, void* request) {
  static_cast<Request*>(request)->self->end(static_cast<Request*>(request), status);
}

void Ucx::on_recv(void*, ucs_status_t status, const ucp_tag_recv_info_t* info, void* data) {
  auto* request = static_cast<Request*>(data);
  Ucx& self = *request->self;
  const std::size_t expected = request->offered ? sizeof(Request::Offer) : request->bytes;
  request->divided = status == UCS_OK && !request->offered && !request->part &&
                     info->length == sizeof(Request::Division) && info->length < expected;
  if (request->divided) {
    std::memcpy(&request->division, request->data, sizeof request->division);
  } else if (status == UCS_ERR_MESSAGE_TRUNCATED ||
             (status == UCS_OK && info->length != expected)) {
    self.lose(*self.peers_[request->peer], concat("sent a message of ", info->length,
                                                  " bytes where ", expected, " were expected"));
    status = UCS_ERR_CANCELED;
  }
  self.end(request, status);
}

template <unsigned id>
ucs_status_t Ucx::on_control(void* data, const void* header, std::size_t header_bytes,
                             void* payload, std::size_t bytes, const ucp_am_recv_param_t* param) {
  Ucx& self = *static_cast<Ucx*>(data);
  ControlHeader from;
  // Strangers' messages, malformed and repeated ones are dropped, not answered.
  if (header_bytes != sizeof from || bytes > max_control_bytes) return UCS_OK;
  if (param->recv_attr & UCP_AM_RECV_ATTR_FLAG_RNDV) return UCS_OK;
  std::memcpy(&from, header, sizeof from);
  const std::uint64_t sender = from.number >> number_bits;
  if (sender >= self.peers_.size()) return UCS_OK;
  Peer& peer = *self.peers_[sender];
  if (from.code != peer.from.code(id, from.number, payload, bytes)) return UCS_OK;
  if (from.number <= peer.taken) return UCS_OK;
  peer.taken = from.number;
  if constexpr (id == control_id) {
    self.events_.control.push_back(
        {peer.rank, std::string(static_cast<const char*>(payload), bytes)});
  } else if (bytes == sizeof(Acknowledgement)) {
    Acknowledgement acknowledgement;
    std::memcpy(&acknowledgement, payload, sizeof acknowledgement);
    self.acknowledged(peer.rank, acknowledgement.index, acknowledgement.generation);
  }
  return UCS_OK;
}

void Ucx::on_error(void* data, ucp_ep_h, ucs_status_t status) {
  Peer& peer = *static_cast<Peer*>(data);
  peer.self->lose(peer, peer.self->ucx_.ucs_status_string(status));
}

void Ucx::send_message(ucp_ep_h endpoint, const void* data, std::size_t bytes, Request* request) {
  ucp_request_param_t param{};
  param.op_attr_mask =
      UCP_OP_ATTR_FIELD_CALLBACK | UCP_OP_ATTR_FIELD_USER_DATA | UCP_OP_ATTR_FIELD_MEMORY_TYPE;
  param.cb.send = on_send;
  param.user_data = request;
  param.memory_type = UCS_MEMORY_TYPE_HOST;
  const std::uint64_t tag = peers_[request->peer]->to.tag(request->tag);
  start(request,
        ucx_.ucp_tag_send_nbx(endpoint, data, bytes, of_sender(rank_, tag, request->part), &param));
}

void Ucx::send(int to, std::uint64_t tag, const void* data, std::size_t bytes, Token token) {
  Peer& peer = *peers_[to];
  if (peer.lost) return;
  Request* request = new_request(RequestKind::send, to, tag);
  request->token = token;
  if (peer.direct && bytes >= direct_bytes) {
    request->offered = true;
    Request::Offer& offer = request->offer;
    offer = {reinterpret_cast<std::uint64_t>(data), bytes, request->index, request->generation, 0};
    offer.code = peer.to.code(offer_id, tag, &offer, offsetof(Request::Offer, code));
    send_message(peer.endpoints[0], &offer, sizeof offer, request);
    return;
  }
  const std::size_t parts = std::min(bytes / part_bytes, peer.endpoints.size() - 1);
  if (parts < 2) {
    send_message(peer.endpoints[parts], data, bytes, request);
    return;
  }
  Request::Division& division = request->division;
  division = {bytes, parts, 0};
  division.code = peer.to.code(division_id, tag, &division, offsetof(Request::Division, code));
  request->parts = int(parts);
  send_message(peer.endpoints[0], &division, sizeof division, request);
  each_part(request, bytes, [&](Request* part, std::size_t begin, std::size_t end) {
    send_message(peer.endpoints[std::size_t(part->part)],
                 static_cast<const std::byte*>(data) + begin, end - begin, part);
  });
}

// Makes the requests of a message's parts. Once the last is given away the message may be done.
template <typename Begin>
void Ucx::each_part(Request* whole, std::size_t bytes, Begin begin) {
  const std::size_t parts = std::size_t(whole->parts);
  for (std::size_t i = 0; i < parts; ++i) {
    Request* part = new_request(whole->kind, whole->peer, whole->tag);
    part->whole = whole;
    part->part = int(i) + 1;
    begin(part, bytes * i / parts, bytes * (i + 1) / parts);
  }
}

void Ucx::recv(int from, std::uint64_t tag, void* data, std::size_t bytes, Token token) {
  Peer& peer = *peers_[from];
  if (peer.lost) return;
  Request* request = new_request(RequestKind::recv, from, tag);
  request->token = token;
  request->data = data;
  request->bytes = bytes;
  request->offered = peer.direct && bytes >= direct_bytes;
  receive(request);
}

void Ucx::receive(Request* request) {
  ucp_request_param_t param{};
  // Always by callback: the size is checked there.
  param.op_attr_mask = UCP_OP_ATTR_FIELD_CALLBACK | UCP_OP_ATTR_FIELD_USER_DATA |
                       UCP_OP_ATTR_FIELD_MEMORY_TYPE | UCP_OP_ATTR_FLAG_NO_IMM_CMPL;
  param.cb.recv = on_recv;
  param.user_data = request;
  param.memory_type = UCS_MEMORY_TYPE_HOST;
  void* target = request->offered ? static_cast<void*>(&request->offer) : request->data;
  const std::size_t bytes = request->offered ? sizeof request->offer : request->bytes;
  const Peer& peer = *peers_[request->peer];
  void* handle = ucx_.ucp_tag_recv_nbx(
      worker_, target, bytes, of_sender(peer.rank, peer.from.tag(request->tag), request->part),
      ~0ull, &param);
  if (!UCS_PTR_IS_PTR(handle))
    end(request, UCS_PTR_STATUS(handle));
  else if (ucx_.ucp_request_check_status(handle) == UCS_INPROGRESS)
    request->handle = handle;
  else
    ucx_.ucp_request_free(handle);  // the callback has already run, without knowing the handle
}

void Ucx::take_offer(Request* request) {
  Peer& peer = *peers_[request->peer];
  const Request::Offer& offer = request->offer;
  if (offer.code !=
      peer.from.code(offer_id, request->tag, &offer, offsetof(Request::Offer, code))) {
    receive(request);
    return;
  }
  request->offered = false;
  if (has_size(request, offer.bytes)) {
    if (peer.neighbour.read(offer.address, request->data, request->bytes) &&
        peer.neighbour.stands()) {
      const Acknowledgement acknowledgement{offer.index, offer.generation};
      send_control(
          request->peer, acknowledgement_id,
          std::string(reinterpret_cast<const char*>(&acknowledgement), sizeof acknowledgement));
    } else {
      fail(request);
      lose(peer, "its memory can no longer be read");
    }
  }
  finish(request);
}

void Ucx::take_division(Request* request) {
  const Request::Division& division = request->division;
  const bool genuine =
      division.code == peers_[request->peer]->from.code(division_id, request->tag, &division,
                                                        offsetof(Request::Division, code)) &&
      division.parts >= 2 && division.parts <= most_parts;
  request->divided = false;
  if (!genuine) {
    receive(request);
    return;
  }
  if (!has_size(request, division.bytes)) {
    finish(request);
    return;
  }
  request->parts = int(division.parts);
  auto* const data = static_cast<std::byte*>(request->data);
  each_part(request, request->bytes, [&](Request* part, std::size_t begin, std::size_t end) {
    part->data = data + begin;
    part->bytes = end - begin;
    receive(part);
  });
}

// If not, its sender is lost.
bool Ucx::has_size(Request* request, std::size_t bytes) {
  if (bytes == request->bytes) return true;
  fail(request);
  lose(*peers_[request->peer],
       concat("sent a message of ", bytes, " bytes where ", request->bytes, " were expected"));
  return false;
}

void Ucx::acknowledged(int from, std::uint64_t index, std::uint64_t generation) {
  if (index >= requests_.size()) return;
  Request* request = requests_[index].get();
  if (request->kind != RequestKind::send || request->peer != from ||
      request->generation != generation || !request->offered)
    return;
  request->offered = false;
  finish(request);  // unless UCX still holds the offer itself
}

void Ucx::control(int to, const std::string& bytes) { send_control(to, control_id, bytes); }

void Ucx::send_control(int to, unsigned id, const std::string& bytes) {
  Peer& peer = *peers_[to];
  if (peer.lost) return;
  Request* request = new_request(RequestKind::control, to, 0);
  const std::uint64_t number = of_sender(rank_, ++peer.sent);
  const ControlHeader header{number, peer.to.code(id, number, bytes.data(), bytes.size())};
  request->payload.assign(reinterpret_cast<const char*>(&header), sizeof header);
  request->payload += bytes;
  ucp_request_param_t param{};
  param.op_attr_mask = UCP_OP_ATTR_FIELD_CALLBACK | UCP_OP_ATTR_FIELD_USER_DATA |
                       UCP_OP_ATTR_FIELD_FLAGS | UCP_OP_ATTR_FIELD_MEMORY_TYPE;
  param.flags = UCP_AM_SEND_FLAG_EAGER;
  param.cb.send = on_send;
  param.user_data = request;
  param.memory_type = UCS_MEMORY_TYPE_HOST;
  start(request,
        ucx_.ucp_am_send_nbx(peer.endpoints[0], id, request->payload.data(), sizeof header,
                             request->payload.data() + sizeof header, bytes.size(), &param));
}
// Bounded: whoever sends without pause must not keep the engine from its deadlines.
void Ucx::turn_worker() {
  for (int turn = 0; turn < most_worker_turns && ucx_.ucp_worker_progress(worker_); ++turn) {
  }
}

// One copy per call, so that the caller can pass a segment on before the next is fetched.
void Ucx::progress(Events& events) {
  turn_worker();
  if (!announced_.empty()) {
    Request* request = announced_.front();
    announced_.pop_front();
    request->divided ? take_division(request) : take_offer(request);
    // If it failed, the sender may have said why.
    turn_worker();
  }
  if (!events_.empty()) events.take(events_);
}

template ucs_status_t Ucx::on_control<control_id>(void*, const void*, std::size_t, void*,
                                                  std::size_t, const ucp_am_recv_param_t*);
template ucs_status_t Ucx::on_control<acknowledgement_id>(void*, const void*, std::size_t, void*,
                                                          std::size_t, const ucp_am_recv_param_t*);
}  // namespace patallreduce::transport
