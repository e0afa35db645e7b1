#include "transport/ucx.h"

#include <poll.h>
#include <sys/epoll.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstring>

#include "errors.h"
#include "transport/neighbour.h"
#include "transport/ucx_context.h"

namespace patallreduce {

namespace {

constexpr unsigned control_id = 1;
constexpr unsigned acknowledgement_id = 2;

// Messages from this size on go to neighbours in one copy.
constexpr std::size_t direct_bytes = 8 * 1024;

// A forced close waits for nobody, it needs a few turns of progress. A receive that a dead peer
// left half done never ends; without progress nothing touches its memory.
constexpr double forced_close_s = 0.1;

// A tag is sender (14 bits), then the caller's tag (50 bits) masked with the communicator's token:
// its epoch, so that nothing of another communicator ever matches.
constexpr int caller_bits = 50;
constexpr int max_ranks = 1 << (64 - caller_bits);

std::uint64_t wire_tag(int sender, std::uint64_t token, std::uint64_t tag) {
  const std::uint64_t epoch = token & ((std::uint64_t{1} << caller_bits) - 1);
  return static_cast<std::uint64_t>(sender) << caller_bits | (tag ^ epoch);
}

struct ControlHeader {
  std::uint64_t token;
  std::uint64_t sender;
};

struct Acknowledgement {
  std::uint64_t index;
  std::uint32_t generation;
};

double now_s() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

bool has_shared_memory(const std::vector<std::string>& resources) {
  return std::any_of(resources.begin(), resources.end(), [](const std::string& resource) {
    const std::string transport = resource.substr(0, resource.find('/'));
    return transport == "sysv" || transport == "posix" || transport == "cma" ||
           transport == "xpmem" || transport == "knem";
  });
}

}  // namespace

struct Ucx::Peer {
  Ucx* self;
  int rank;
  ucp_ep_h endpoint = nullptr;
  Neighbour neighbour;
  bool direct = false;
  bool lost = false;
};

struct Ucx::Request {
  struct Offer {
    std::uint64_t address;
    std::uint64_t bytes;
    std::uint64_t index;  // of the sender's request
    std::uint32_t generation;
  };
  enum class Kind { none, send, recv, control };

  Ucx* self;
  std::uint64_t index;
  std::uint32_t generation = 0;
  Kind kind = Kind::none;
  void* handle = nullptr;  // UCX's, while UCX works on it
  bool offered = false;    // one copy: until the acknowledgement, or until it is copied
  int peer = -1;
  Token token = 0;
  void* data = nullptr;
  std::size_t bytes = 0;
  Offer offer{};
  std::string payload;  // of a control message
};

Ucx::Ucx(const UcxLibrary& library, int rank, int ranks, std::uint64_t token,
         const std::string& net_devices)
    : ucx_(library), rank_(rank), ranks_(ranks), token_(token) {
  PATR_CHECK(ranks >= 1 && ranks <= max_ranks && rank >= 0 && rank < ranks, TransportError,
             "ucx: expected ranks in 1..", max_ranks, " and a rank below, got rank ", rank, " of ",
             ranks);
  context_ = new_ucx_context(ucx_, net_devices);
  ucp_worker_params_t params{};
  params.field_mask = UCP_WORKER_PARAM_FIELD_THREAD_MODE;
  params.thread_mode = UCS_THREAD_MODE_SERIALIZED;
  ucs_status_t status = ucx_.ucp_worker_create(context_, &params, &worker_);
  if (status == UCS_OK) status = ucx_.ucp_worker_get_efd(worker_, &worker_fd_);
  const auto listen = [&](unsigned id, ucp_am_recv_callback_t callback) {
    ucp_am_handler_param_t handler{};
    handler.field_mask = UCP_AM_HANDLER_PARAM_FIELD_ID | UCP_AM_HANDLER_PARAM_FIELD_CB |
                         UCP_AM_HANDLER_PARAM_FIELD_ARG;
    handler.id = id;
    handler.cb = callback;
    handler.arg = this;
    if (status == UCS_OK) status = ucx_.ucp_worker_set_am_recv_handler(worker_, &handler);
  };
  listen(control_id, on_control<control_id>);
  listen(acknowledgement_id, on_control<acknowledgement_id>);
  if (status != UCS_OK) {
    if (worker_) ucx_.ucp_worker_destroy(worker_);
    ucx_.ucp_cleanup(context_);
    throw TransportError(concat("UCX: cannot make a worker: ", ucx_.ucs_status_string(status)));
  }
  processes_fd_ = epoll_create1(EPOLL_CLOEXEC);
}

Ucx::~Ucx() { close(0); }

std::string Ucx::address() const {
  const ProcessAddress process = own_process_address();
  ucp_worker_attr_t attributes{};
  attributes.field_mask = UCP_WORKER_ATTR_FIELD_ADDRESS;
  const ucs_status_t status = ucx_.ucp_worker_query(worker_, &attributes);
  PATR_CHECK(status == UCS_OK, TransportError,
             "UCX: no worker address: ", ucx_.ucs_status_string(status));
  std::string address(reinterpret_cast<const char*>(&process), sizeof process);
  address.append(reinterpret_cast<const char*>(attributes.address), attributes.address_length);
  ucx_.ucp_worker_release_address(worker_, attributes.address);
  return address;
}

void Ucx::connect(const std::vector<std::string>& addresses) {
  PATR_CHECK(static_cast<int>(addresses.size()) == ranks_, TransportError, "ucx: expected ", ranks_,
             " addresses, got ", addresses.size());
  for (int rank = 0; rank < ranks_; ++rank) {
    peers_.push_back(std::make_unique<Peer>());
    Peer& peer = *peers_.back();
    peer.self = this;
    peer.rank = rank;
    if (rank == rank_) continue;
    ProcessAddress process;
    PATR_CHECK(addresses[rank].size() > sizeof process, TransportError, "ucx: rank ", rank,
               " gave an address of ", addresses[rank].size(), " bytes");
    std::memcpy(&process, addresses[rank].data(), sizeof process);
    ucp_ep_params_t params{};
    params.field_mask = UCP_EP_PARAM_FIELD_REMOTE_ADDRESS | UCP_EP_PARAM_FIELD_ERR_HANDLING_MODE |
                        UCP_EP_PARAM_FIELD_ERR_HANDLER;
    params.address =
        reinterpret_cast<const ucp_address_t*>(addresses[rank].data() + sizeof process);
    params.err_mode = UCP_ERR_HANDLING_MODE_PEER;
    params.err_handler.cb = on_error;
    params.err_handler.arg = &peer;
    const ucs_status_t status = ucx_.ucp_ep_create(worker_, &params, &peer.endpoint);
    if (status != UCS_OK) {
      throw TransportError(concat("UCX: rank ", rank_, " cannot reach rank ", rank, ": ",
                                  ucx_.ucs_status_string(status)),
                           rank);
    }
    peer.neighbour = Neighbour(process);
    epoll_event event{};
    event.events = EPOLLIN;
    event.data.u32 = static_cast<std::uint32_t>(rank);
    if (peer.neighbour.pidfd() >= 0)
      epoll_ctl(processes_fd_, EPOLL_CTL_ADD, peer.neighbour.pidfd(), &event);
  }
}

std::vector<int> Ucx::readable() const {
  std::vector<int> ranks;
  // Whoever forbids UCX shared memory (UCX_TLS) means it.
  if (!has_shared_memory(ucx_resources(ucx_, context_))) return ranks;
  for (const auto& peer : peers_)
    if (peer->neighbour.readable()) ranks.push_back(peer->rank);
  return ranks;
}

void Ucx::set_direct(const std::vector<int>& ranks) {
  for (const int rank : ranks) peers_.at(rank)->direct = true;
  direct_peers_ = static_cast<int>(ranks.size());
}

Ucx::Request* Ucx::new_request(int peer) {
  if (free_.empty()) {
    requests_.push_back(std::make_unique<Request>());
    requests_.back()->self = this;
    requests_.back()->index = requests_.size() - 1;
    free_.push_back(requests_.back().get());
  }
  Request* request = free_.back();
  free_.pop_back();
  ++request->generation;
  request->peer = peer;
  return request;
}

void Ucx::release(Request* request) {
  if (request->handle || request->offered) return;
  request->kind = Request::Kind::none;
  request->payload.clear();
  free_.push_back(request);
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
    request->offered = false;
    if (status != UCS_ERR_CANCELED) lose(*peers_[request->peer], ucx_.ucs_status_string(status));
  } else if (request->kind != Request::Kind::control && !request->offered) {
    events_.finished.push_back(request->token);
  } else if (request->kind == Request::Kind::recv) {
    offers_.push_back(request);
  }
  release(request);
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
  if (status == UCS_ERR_MESSAGE_TRUNCATED || (status == UCS_OK && info->length != expected)) {
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
  // Unknown senders and malformed messages are dropped, not answered.
  if (header_bytes != sizeof from || bytes > max_control_bytes) return UCS_OK;
  if (param->recv_attr & UCP_AM_RECV_ATTR_FLAG_RNDV) return UCS_OK;
  std::memcpy(&from, header, sizeof from);
  if (from.token != self.token_ || from.sender >= static_cast<std::uint64_t>(self.ranks_))
    return UCS_OK;
  const int sender = static_cast<int>(from.sender);
  if constexpr (id == control_id) {
    self.events_.control.push_back({sender, std::string(static_cast<const char*>(payload), bytes)});
  } else if (bytes == sizeof(Acknowledgement)) {
    Acknowledgement acknowledgement;
    std::memcpy(&acknowledgement, payload, sizeof acknowledgement);
    self.acknowledged(sender, acknowledgement.index, acknowledgement.generation);
  }
  return UCS_OK;
}

void Ucx::on_error(void* data, ucp_ep_h, ucs_status_t status) {
  Peer& peer = *static_cast<Peer*>(data);
  peer.self->lose(peer, peer.self->ucx_.ucs_status_string(status));
}

void Ucx::send_message(int to, std::uint64_t tag, const void* data, std::size_t bytes,
                       Request* request) {
  ucp_request_param_t param{};
  param.op_attr_mask =
      UCP_OP_ATTR_FIELD_CALLBACK | UCP_OP_ATTR_FIELD_USER_DATA | UCP_OP_ATTR_FIELD_MEMORY_TYPE;
  param.cb.send = on_send;
  param.user_data = request;
  param.memory_type = UCS_MEMORY_TYPE_HOST;
  start(request, ucx_.ucp_tag_send_nbx(peers_[to]->endpoint, data, bytes,
                                       wire_tag(rank_, token_, tag), &param));
}

void Ucx::send(int to, std::uint64_t tag, const void* data, std::size_t bytes, Token token) {
  Peer& peer = *peers_[to];
  if (peer.lost) return;
  Request* request = new_request(to);
  request->kind = Request::Kind::send;
  request->token = token;
  if (peer.direct && bytes >= direct_bytes) {
    request->offered = true;
    request->offer = {reinterpret_cast<std::uint64_t>(data), bytes, request->index,
                      request->generation};
    send_message(to, tag, &request->offer, sizeof request->offer, request);
  } else {
    send_message(to, tag, data, bytes, request);
  }
}

void Ucx::recv(int from, std::uint64_t tag, void* data, std::size_t bytes, Token token) {
  Peer& peer = *peers_[from];
  if (peer.lost) return;
  Request* request = new_request(from);
  request->kind = Request::Kind::recv;
  request->token = token;
  request->data = data;
  request->bytes = bytes;
  request->offered = peer.direct && bytes >= direct_bytes;
  ucp_request_param_t param{};
  // Always by callback: the size is checked there.
  param.op_attr_mask = UCP_OP_ATTR_FIELD_CALLBACK | UCP_OP_ATTR_FIELD_USER_DATA |
                       UCP_OP_ATTR_FIELD_MEMORY_TYPE | UCP_OP_ATTR_FLAG_NO_IMM_CMPL;
  param.cb.recv = on_recv;
  param.user_data = request;
  param.memory_type = UCS_MEMORY_TYPE_HOST;
  void* target = request->offered ? static_cast<void*>(&request->offer) : data;
  const std::size_t target_bytes = request->offered ? sizeof request->offer : bytes;
  void* handle = ucx_.ucp_tag_recv_nbx(worker_, target, target_bytes, wire_tag(from, token_, tag),
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
  request->offered = false;
  if (offer.bytes != request->bytes) {
    lose(peer, concat("sent a message of ", offer.bytes, " bytes where ", request->bytes,
                      " were expected"));
  } else if (!peer.neighbour.read(offer.address, request->data, request->bytes)) {
    lose(peer, "its memory can no longer be read");
  } else {
    const Acknowledgement acknowledgement{offer.index, offer.generation};
    send_control(
        request->peer, acknowledgement_id,
        std::string(reinterpret_cast<const char*>(&acknowledgement), sizeof acknowledgement));
    events_.finished.push_back(request->token);
  }
  release(request);
}

void Ucx::acknowledged(int from, std::uint64_t index, std::uint32_t generation) {
  if (index >= requests_.size()) return;
  Request* request = requests_[index].get();
  if (request->kind != Request::Kind::send || request->peer != from ||
      request->generation != generation || !request->offered)
    return;
  request->offered = false;
  // UCX may still hold the offer itself; then its completion reports the token.
  if (request->handle) return;
  events_.finished.push_back(request->token);
  release(request);
}

void Ucx::control(int to, const std::string& bytes) { send_control(to, control_id, bytes); }

void Ucx::send_control(int to, unsigned id, const std::string& bytes) {
  Peer& peer = *peers_[to];
  if (peer.lost) return;
  Request* request = new_request(to);
  request->kind = Request::Kind::control;
  const ControlHeader header{token_, static_cast<std::uint64_t>(rank_)};
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
        ucx_.ucp_am_send_nbx(peer.endpoint, id, request->payload.data(), sizeof header,
                             request->payload.data() + sizeof header, bytes.size(), &param));
}

void Ucx::check_processes() {
  epoll_event gone[8];
  const int count = epoll_wait(processes_fd_, gone, 8, 0);
  if (count <= 0) return;
  // What it sent before it ended comes first: it may have said goodbye.
  while (ucx_.ucp_worker_progress(worker_)) {
  }
  for (int i = 0; i < count; ++i) {
    Peer& peer = *peers_[gone[i].data.u32];
    epoll_ctl(processes_fd_, EPOLL_CTL_DEL, peer.neighbour.pidfd(), nullptr);
    lose(peer, "its process ended");
  }
}

// One copy per call, so that the caller can pass a segment on before the next is fetched.
void Ucx::progress(Events& events) {
  while (ucx_.ucp_worker_progress(worker_)) {
  }
  if (!offers_.empty()) {
    Request* request = offers_.front();
    offers_.pop_front();
    take_offer(request);
    // A sender that gave up says so before its memory changes: hear it before believing the copy.
    while (ucx_.ucp_worker_progress(worker_)) {
    }
  }
  if (!events_.empty()) events.take(events_);
}

bool Ucx::arm() {
  check_processes();
  if (!events_.empty() || !offers_.empty()) return false;
  return ucx_.ucp_worker_arm(worker_) == UCS_OK;
}

std::vector<int> Ucx::event_fds() const { return {worker_fd_, processes_fd_}; }

template <typename Pending>
void Ucx::drain(double timeout_s, Pending pending) {
  const double deadline_s = now_s() + timeout_s;
  while (pending()) {
    if (ucx_.ucp_worker_progress(worker_)) continue;
    if (now_s() > deadline_s) return;
    pollfd fd{worker_fd_, POLLIN, 0};
    if (ucx_.ucp_worker_arm(worker_) == UCS_OK) poll(&fd, 1, 10);
  }
}

void Ucx::close_endpoints(double timeout_s, bool force) {
  std::vector<void*> closing;
  for (auto& peer : peers_) {
    if (!peer->endpoint) continue;
    ucp_request_param_t param{};
    param.op_attr_mask = UCP_OP_ATTR_FIELD_FLAGS;
    param.flags = force || peer->lost ? UCP_EP_CLOSE_FLAG_FORCE : 0;
    void* handle = ucx_.ucp_ep_close_nbx(peer->endpoint, &param);
    if (UCS_PTR_IS_PTR(handle)) closing.push_back(handle);
    peer->endpoint = nullptr;
  }
  drain(timeout_s, [&] {
    while (!closing.empty() && ucx_.ucp_request_check_status(closing.back()) != UCS_INPROGRESS) {
      ucx_.ucp_request_free(closing.back());
      closing.pop_back();
    }
    return !closing.empty();
  });
  for (void* handle : closing) ucx_.ucp_request_free(handle);
}

// Every request ends: UCX's by cancellation or with their endpoint, ours at once.
void Ucx::cancel_all() {
  abandoned_ = true;
  offers_.clear();
  for (auto& request : requests_) {
    const bool ours = request->offered && !request->handle;
    request->offered = false;
    if (ours)
      release(request.get());
    else if (request->kind == Request::Kind::recv && request->handle)
      ucx_.ucp_request_cancel(worker_, request->handle);
  }
}

void Ucx::abandon() {
  if (!worker_ || abandoned_) return;
  cancel_all();
  close_endpoints(forced_close_s, true);
  drain(forced_close_s, [this] { return free_.size() < requests_.size(); });
  events_.clear();
}

void Ucx::close(double timeout_s) {
  if (!worker_) return;
  if (!abandoned_) {
    // What was sent is flushed to those that still listen; then nothing is left to hear.
    close_endpoints(timeout_s, timeout_s <= 0);
    cancel_all();
    drain(forced_close_s, [this] { return free_.size() < requests_.size(); });
  }
  peers_.clear();
  ::close(processes_fd_);
  const Quiet quiet(ucx_);
  ucx_.ucp_worker_destroy(worker_);
  ucx_.ucp_cleanup(context_);
  worker_ = nullptr;
}

}  // namespace patallreduce
