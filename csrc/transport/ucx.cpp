#include "transport/ucx.h"

#include <poll.h>
#include <sys/epoll.h>
#include <unistd.h>

#include <algorithm>
#include <iterator>
#include <optional>
#include <set>
#include <utility>

#include "clock.h"
#include "errors.h"
#include "transport/ucx_request.h"
#include "wire.h"

namespace patallreduce::transport {

namespace {

// A forced close waits for nobody, it needs a few turns of progress. A receive that a dead peer
// left half done never ends; without progress nothing touches its memory.
constexpr double forced_close_s = 0.1;

constexpr std::size_t longest_address = 1 << 20;

// How to reach a rank: what its address says.
struct Address {
  ProcessAddress process;
  std::set<End> ends;  // where it listens
  std::string worker;  // UCX's
};

// Of an address, before it: UCX takes bytes that are none for an address, and aborts the process.
std::uint64_t checksum(const std::string& bytes) {
  Hash hash;
  hash.mix(bytes.data(), bytes.size());
  return hash.value;
}

std::string encode(const Address& address) {
  Writer writer;
  writer.put(address.process);
  writer.put(static_cast<std::uint32_t>(address.ends.size()));
  for (const End& end : address.ends) writer.put(end);
  writer.put(address.worker);
  Writer sum;
  sum.put(checksum(writer.bytes));
  return sum.bytes + writer.bytes;
}

std::optional<Address> decode(const std::string& bytes) {
  Reader reader(bytes);
  const auto sum = reader.get<std::uint64_t>();
  if (!reader.good() || sum != checksum(bytes.substr(sizeof sum))) return std::nullopt;
  Address address{reader.get<ProcessAddress>(), {}, {}};
  for (auto left = reader.get<std::uint32_t>(); left > 0 && reader.good(); --left)
    address.ends.insert(reader.get<End>());
  address.worker = reader.text(longest_address);
  if (!reader.finished() || address.worker.empty()) return std::nullopt;
  return address;
}

bool is_one_of(const std::string& resource, const std::set<std::string>& transports) {
  return transports.count(resource.substr(0, resource.find('/'))) > 0;
}

bool is_shared_memory(const std::string& resource) {
  return is_one_of(resource, {"sysv", "posix", "cma", "xpmem", "knem"});
}

}  // namespace

Ucx::Ucx(const UcxLibrary& library, int rank, int ranks, const Key& key, const UcxChoice& choice)
    : ucx_(library),
      rank_(rank),
      ranks_(ranks),
      key_(key),
      connections_(choice.connections),
      // In the address, which strangers may see: not the key itself.
      standing_(SipHash(key).end("stands", 6) | 1) {
  PATR_CHECK(ranks >= 1 && ranks <= max_ranks && rank >= 0 && rank < ranks, TransportError,
             "ucx: expected ranks in 1..", max_ranks, " and a rank below, got rank ", rank, " of ",
             ranks);
  PATR_CHECK(connections_ >= 1 && connections_ <= most_connections, TransportError,
             "ucx: expected 1 to ", most_connections, " connections with each rank, got ",
             connections_);
  context_ = new_ucx_context(ucx_, choice);
  const std::set<End> others = listening();
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
  const std::set<End> now = listening();
  std::set_difference(now.begin(), now.end(), others.begin(), others.end(),
                      std::inserter(ends_, ends_.end()));
  processes_fd_ = epoll_create1(EPOLL_CLOEXEC);
  if (status != UCS_OK || processes_fd_ < 0) {
    const char* const why =
        status == UCS_OK ? "no file descriptor left" : ucx_.ucs_status_string(status);
    if (processes_fd_ >= 0) ::close(processes_fd_);
    if (worker_) ucx_.ucp_worker_destroy(worker_);
    ucx_.ucp_cleanup(context_);
    throw TransportError(concat("UCX: cannot make a worker: ", why));
  }
}

Ucx::~Ucx() { close(0); }

std::string Ucx::address() const {
  ucp_worker_attr_t attributes{};
  attributes.field_mask = UCP_WORKER_ATTR_FIELD_ADDRESS;
  const ucs_status_t status = ucx_.ucp_worker_query(worker_, &attributes);
  PATR_CHECK(status == UCS_OK, TransportError,
             "UCX: no worker address: ", ucx_.ucs_status_string(status));
  const std::string worker(reinterpret_cast<const char*>(attributes.address),
                           attributes.address_length);
  ucx_.ucp_worker_release_address(worker_, attributes.address);
  return encode({own_process_address(standing_), ends_, worker});
}

void Ucx::connect(const std::vector<std::string>& addresses) {
  PATR_CHECK(static_cast<int>(addresses.size()) == ranks_, TransportError, "ucx: expected ", ranks_,
             " addresses, got ", addresses.size());
  bool neighbours = false;
  ends_of_.resize(std::size_t(ranks_));
  ends_of_[std::size_t(rank_)] = ends_;
  for (int rank = 0; rank < ranks_; ++rank) {
    peers_.push_back(std::make_unique<Peer>(
        Peer{this, rank, Marks(key_, rank_, rank), Marks(key_, rank, rank_)}));
    Peer& peer = *peers_.back();
    if (rank == rank_) continue;
    const auto address = decode(addresses[rank]);
    if (!address) {
      throw TransportError(
          concat("ucx: rank ", rank_, ": the address that rank ", rank, " gave, of ",
                 addresses[rank].size(), " bytes, was changed on its way"),
          rank);
    }
    ends_.insert(address->ends.begin(), address->ends.end());
    ends_of_[std::size_t(rank)] = address->ends;
    open_connections(peer, address->worker);
    peer.neighbour = Neighbour(address->process);
    epoll_event event{};
    event.events = EPOLLIN;
    event.data.u32 = static_cast<std::uint32_t>(rank);
    if (peer.neighbour.pidfd() >= 0)
      epoll_ctl(processes_fd_, EPOLL_CTL_ADD, peer.neighbour.pidfd(), &event);
    neighbours = neighbours || peer.neighbour.pidfd() >= 0;
  }
  const auto resources = ucx_resources(ucx_, context_);
  only_sockets_ = std::all_of(resources.begin(), resources.end(), [&](const std::string& resource) {
    return is_one_of(resource, {"tcp", "self"}) || (is_shared_memory(resource) && !neighbours);
  });
}

void Ucx::open_connections(Peer& peer, const std::string& address) {
  ucp_ep_params_t params{};
  params.field_mask = UCP_EP_PARAM_FIELD_REMOTE_ADDRESS | UCP_EP_PARAM_FIELD_ERR_HANDLING_MODE |
                      UCP_EP_PARAM_FIELD_ERR_HANDLER;
  params.address = reinterpret_cast<const ucp_address_t*>(address.data());
  params.err_mode = UCP_ERR_HANDLING_MODE_PEER;
  params.err_handler.cb = on_error;
  params.err_handler.arg = &peer;
  for (int i = 0; i < connections_; ++i) {
    ucp_ep_h endpoint = nullptr;
    const ucs_status_t status = ucx_.ucp_ep_create(worker_, &params, &endpoint);
    if (status != UCS_OK) {
      throw TransportError(concat("UCX: rank ", rank_, " cannot reach rank ", peer.rank, ": ",
                                  ucx_.ucs_status_string(status)),
                           peer.rank);
    }
    peer.endpoints.push_back(endpoint);
  }
}

std::vector<int> Ucx::readable() const {
  std::vector<int> ranks;
  // Whoever forbids UCX shared memory (UCX_TLS) means it.
  const auto resources = ucx_resources(ucx_, context_);
  if (std::none_of(resources.begin(), resources.end(), is_shared_memory)) return ranks;
  for (const auto& peer : peers_)
    if (peer->neighbour.readable()) ranks.push_back(peer->rank);
  return ranks;
}

void Ucx::set_direct(const std::vector<int>& ranks) {
  for (const int rank : ranks) peers_.at(rank)->direct = true;
  direct_peers_ = static_cast<int>(ranks.size());
}
void Ucx::check_processes() {
  epoll_event gone[8];
  const int count = epoll_wait(processes_fd_, gone, 8, 0);
  if (count <= 0) return;
  // What it sent before it ended comes first: it may have said goodbye.
  turn_worker();
  for (int i = 0; i < count; ++i) {
    Peer& peer = *peers_[gone[i].data.u32];
    epoll_ctl(processes_fd_, EPOLL_CTL_DEL, peer.neighbour.pidfd(), nullptr);
    lose(peer, "its process ended");
  }
}
bool Ucx::arm() {
  check_processes();
  if (!events_.empty() || !announced_.empty()) return false;
  return ucx_.ucp_worker_arm(worker_) == UCS_OK;
}

std::vector<int> Ucx::event_fds() const { return {worker_fd_, processes_fd_}; }

template <typename Pending>
void Ucx::drain(double timeout_s, Pending pending) {
  const double deadline_s = now_s() + timeout_s;
  while (pending()) {
    const bool busy = ucx_.ucp_worker_progress(worker_);
    if (now_s() > deadline_s) return;
    if (busy) continue;
    pollfd fd{worker_fd_, POLLIN, 0};
    if (ucx_.ucp_worker_arm(worker_) == UCS_OK) poll(&fd, 1, 10);
  }
}

// What was sent has left, or its connection will take no more: to end it, UCX sends a last message
// and tries for as long as there is no room for it.
void Ucx::flush(double timeout_s) {
  const double until_s = now_s() + timeout_s;
  if (timeout_s > 0) {
    const ucp_request_param_t param{};
    void* handle = ucx_.ucp_worker_flush_nbx(worker_, &param);
    if (UCS_PTR_IS_PTR(handle)) {
      drain(timeout_s, [&] { return ucx_.ucp_request_check_status(handle) == UCS_INPROGRESS; });
      ucx_.ucp_request_free(handle);
    }
  }
  shut_down_blocked(ends_, until_s - now_s());
}

void Ucx::close_endpoints(double timeout_s, bool force) {
  std::vector<void*> closing;
  for (auto& peer : peers_) {
    ucp_request_param_t param{};
    param.op_attr_mask = UCP_OP_ATTR_FIELD_FLAGS;
    param.flags = force || peer->lost ? UCP_EP_CLOSE_FLAG_FORCE : 0;
    for (const ucp_ep_h endpoint : std::exchange(peer->endpoints, {})) {
      void* handle = ucx_.ucp_ep_close_nbx(endpoint, &param);
      if (UCS_PTR_IS_PTR(handle)) closing.push_back(handle);
    }
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
  standing_ = 0;
  announced_.clear();
  for (auto& request : requests_) {
    if (request->kind == RequestKind::none) continue;
    fail(request.get());
    if (request->kind == RequestKind::recv && request->handle)
      ucx_.ucp_request_cancel(worker_, request->handle);
    else
      finish(request.get());
  }
}

void Ucx::abandon() {
  if (!worker_ || abandoned_) return;
  cancel_all();
  flush(0);
  close_endpoints(forced_close_s, true);
  drain(forced_close_s, [this] { return free_.size() < requests_.size(); });
  events_.clear();
}

void Ucx::close(double timeout_s) {
  if (!worker_) return;
  if (!abandoned_) {
    // What was sent is flushed to those that still listen; then nothing is left to hear.
    flush(timeout_s);
    close_endpoints(timeout_s, timeout_s <= 0);
    cancel_all();
    drain(forced_close_s, [this] { return free_.size() < requests_.size(); });
  }
  peers_.clear();
  ::close(processes_fd_);
  flush(0);
  const Quiet quiet(ucx_);
  ucx_.ucp_worker_destroy(worker_);
  ucx_.ucp_cleanup(context_);
  worker_ = nullptr;
}

}  // namespace patallreduce::transport
