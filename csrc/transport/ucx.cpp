#include "transport/ucx.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/epoll.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <functional>
#include <mutex>

#include "errors.h"

namespace patallreduce {

namespace {

constexpr unsigned control_id = 1;

// A forced close waits for nobody, it needs a few turns of progress. A receive that a dead peer
// left half done never ends; without progress nothing touches its memory.
constexpr double forced_close_s = 0.1;

// A tag is sender (14 bits) and caller's tag (50 bits), scrambled by the token: a message with
// another token matches no receive, but for one chance in 2^50.
constexpr int caller_bits = 50;
constexpr int max_ranks = 1 << (64 - caller_bits);

std::uint64_t wire_tag(int sender, std::uint64_t token, std::uint64_t tag) {
  constexpr std::uint64_t mask = (std::uint64_t{1} << caller_bits) - 1;
  return (static_cast<std::uint64_t>(sender) << caller_bits) | ((tag ^ token) & mask);
}

struct ControlHeader {
  std::uint64_t token;
  std::uint64_t sender;
};

// Precedes UCX's own address in address(). Equal `host` means: same kernel and same process
// numbers, so that `pid` can be watched.
struct AddressHeader {
  char host[64];
  std::int64_t pid;
};

void fill_host(char (&host)[64]) {
  std::string id;
  std::getline(std::ifstream("/proc/sys/kernel/random/boot_id"), id);
  char space[32] = {};
  const ssize_t length = readlink("/proc/self/ns/pid", space, sizeof space - 1);
  std::snprintf(host, sizeof host, "%.36s%.20s", id.c_str(), length > 0 ? space : "");
}

double now_s() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

std::string printed(const std::function<void(std::FILE*)>& print) {
  char* text = nullptr;
  std::size_t length = 0;
  std::FILE* stream = open_memstream(&text, &length);
  print(stream);
  std::fclose(stream);
  std::string result(text, length);
  std::free(text);
  return result;
}

ucp_context_h new_context(const UcxLibrary& ucx, const std::string& net_devices) {
  ucp_config_t* config;
  const auto check = [&ucx](ucs_status_t status, const char* what) {
    PATR_CHECK(status == UCS_OK, TransportError, "UCX ", ucx.version, " at ", ucx.path, ": ", what,
               ": ", ucx.ucs_status_string(status));
  };
  check(ucx.ucp_config_read(nullptr, nullptr, &config), "reading its configuration");
  // Unknown names are no error: older releases lack some of these.
  for (const char* name : {"POSIX_ERROR_HANDLING", "SYSV_ERROR_HANDLING", "CMA_ERROR_HANDLING"})
    ucx.ucp_config_modify(config, name, "y");
  ucx.ucp_config_modify(config, "KEEPALIVE_INTERVAL", "500ms");
  if (!net_devices.empty())
    check(ucx.ucp_config_modify(config, "NET_DEVICES", net_devices.c_str()), "setting NET_DEVICES");
  ucp_params_t params{};
  params.field_mask = UCP_PARAM_FIELD_FEATURES | UCP_PARAM_FIELD_NAME;
  params.features = UCP_FEATURE_TAG | UCP_FEATURE_AM | UCP_FEATURE_WAKEUP;
  params.name = "patallreduce";
  ucp_context_h context;
  // API 1.13: structures grow, and the library reads only what that version had.
  const ucs_status_t status = ucx.ucp_init_version(1, 13, &params, config, &context);
  ucx.ucp_config_release(config);
  check(status, "initialising");
  return context;
}

// Silences UCX while it lives. Destroying a worker warns on standard output of every request that
// never ended and every message that nobody received; after a failure both are as they must be.
class Quiet {
 public:
  explicit Quiet(const UcxLibrary& ucx) : lock_(mutex_), ucx_(ucx) {
    if (ucx_.ucs_global_opts_get_value("LOG_LEVEL", level_, sizeof level_) == UCS_OK)
      ucx_.ucs_global_opts_set_value("LOG_LEVEL", "error");
  }
  ~Quiet() {
    if (level_[0]) ucx_.ucs_global_opts_set_value("LOG_LEVEL", level_);
  }
  Quiet(const Quiet&) = delete;

 private:
  static inline std::mutex mutex_;  // the level is the process's
  std::lock_guard<std::mutex> lock_;
  const UcxLibrary& ucx_;
  char level_[32] = {};
};

}  // namespace

struct Ucx::Peer {
  Ucx* self;
  int rank;
  ucp_ep_h endpoint = nullptr;
  int pidfd = -1;
  bool lost = false;
};

struct Ucx::Request {
  Ucx* self;
  void* handle;  // UCX's, while it is pending
  int peer;
  bool is_recv;
  bool has_token;
  Token token;
  std::size_t bytes;
  std::string payload;  // of a control message
};

Ucx::Ucx(const UcxLibrary& library, int rank, int ranks, std::uint64_t token,
         const std::string& net_devices)
    : ucx_(library), rank_(rank), ranks_(ranks), token_(token) {
  PATR_CHECK(ranks >= 1 && ranks <= max_ranks && rank >= 0 && rank < ranks, TransportError,
             "ucx: expected ranks in 1..", max_ranks, " and a rank below, got rank ", rank, " of ",
             ranks);
  context_ = new_context(ucx_, net_devices);
  ucp_worker_params_t params{};
  params.field_mask = UCP_WORKER_PARAM_FIELD_THREAD_MODE;
  params.thread_mode = UCS_THREAD_MODE_SERIALIZED;
  ucs_status_t status = ucx_.ucp_worker_create(context_, &params, &worker_);
  if (status == UCS_OK) status = ucx_.ucp_worker_get_efd(worker_, &worker_fd_);
  if (status == UCS_OK) {
    ucp_am_handler_param_t handler{};
    handler.field_mask = UCP_AM_HANDLER_PARAM_FIELD_ID | UCP_AM_HANDLER_PARAM_FIELD_CB |
                         UCP_AM_HANDLER_PARAM_FIELD_ARG;
    handler.id = control_id;
    handler.cb = on_control;
    handler.arg = this;
    status = ucx_.ucp_worker_set_am_recv_handler(worker_, &handler);
  }
  if (status != UCS_OK) {
    if (worker_) ucx_.ucp_worker_destroy(worker_);
    ucx_.ucp_cleanup(context_);
    throw TransportError(concat("UCX: cannot make a worker: ", ucx_.ucs_status_string(status)));
  }
  processes_fd_ = epoll_create1(EPOLL_CLOEXEC);
}

Ucx::~Ucx() { close(0); }

std::string Ucx::address() const {
  AddressHeader header{};
  fill_host(header.host);
  header.pid = getpid();
  ucp_worker_attr_t attributes{};
  attributes.field_mask = UCP_WORKER_ATTR_FIELD_ADDRESS;
  const ucs_status_t status = ucx_.ucp_worker_query(worker_, &attributes);
  PATR_CHECK(status == UCS_OK, TransportError,
             "UCX: no worker address: ", ucx_.ucs_status_string(status));
  std::string address(reinterpret_cast<const char*>(&header), sizeof header);
  address.append(reinterpret_cast<const char*>(attributes.address), attributes.address_length);
  ucx_.ucp_worker_release_address(worker_, attributes.address);
  return address;
}

void Ucx::connect(const std::vector<std::string>& addresses) {
  PATR_CHECK(static_cast<int>(addresses.size()) == ranks_, TransportError, "ucx: expected ", ranks_,
             " addresses, got ", addresses.size());
  AddressHeader own{};
  fill_host(own.host);
  for (int rank = 0; rank < ranks_; ++rank) {
    peers_.push_back(std::make_unique<Peer>());
    Peer& peer = *peers_.back();
    peer.self = this;
    peer.rank = rank;
    if (rank == rank_) continue;
    AddressHeader header;
    PATR_CHECK(addresses[rank].size() > sizeof header, TransportError, "ucx: rank ", rank,
               " gave an address of ", addresses[rank].size(), " bytes");
    std::memcpy(&header, addresses[rank].data(), sizeof header);
    ucp_ep_params_t params{};
    params.field_mask = UCP_EP_PARAM_FIELD_REMOTE_ADDRESS | UCP_EP_PARAM_FIELD_ERR_HANDLING_MODE |
                        UCP_EP_PARAM_FIELD_ERR_HANDLER;
    params.address = reinterpret_cast<const ucp_address_t*>(addresses[rank].data() + sizeof header);
    params.err_mode = UCP_ERR_HANDLING_MODE_PEER;
    params.err_handler.cb = on_error;
    params.err_handler.arg = &peer;
    const ucs_status_t status = ucx_.ucp_ep_create(worker_, &params, &peer.endpoint);
    if (status != UCS_OK) {
      throw TransportError(concat("UCX: rank ", rank_, " cannot reach rank ", rank, ": ",
                                  ucx_.ucs_status_string(status)),
                           rank);
    }
    if (std::memcmp(header.host, own.host, sizeof own.host) == 0 && header.pid != getpid()) {
      peer.pidfd = static_cast<int>(syscall(SYS_pidfd_open, header.pid, 0));
      epoll_event event{};
      event.events = EPOLLIN;
      event.data.u32 = static_cast<std::uint32_t>(rank);
      if (peer.pidfd >= 0) epoll_ctl(processes_fd_, EPOLL_CTL_ADD, peer.pidfd, &event);
    }
  }
}

Ucx::Request* Ucx::new_request(int peer) {
  if (free_.empty()) {
    requests_.push_back(std::make_unique<Request>());
    free_.push_back(requests_.back().get());
  }
  Request* request = free_.back();
  free_.pop_back();
  *request = Request{this, nullptr, peer, false, false, 0, 0, {}};
  return request;
}

void Ucx::finish(Request* request, ucs_status_t status) {
  if (request->handle) ucx_.ucp_request_free(request->handle);
  request->handle = nullptr;
  if (status == UCS_OK) {
    if (request->has_token) events_.finished.push_back(request->token);
  } else if (status != UCS_ERR_CANCELED) {
    lose(*peers_[request->peer], ucx_.ucs_status_string(status));
  }
  request->payload.clear();
  free_.push_back(request);
}

void Ucx::lose(Peer& peer, const std::string& reason) {
  if (peer.lost || abandoned_) return;
  peer.lost = true;
  events_.lost.push_back({peer.rank, reason});
}

void Ucx::on_send(void*, ucs_status_t status, void* data) {
  auto* request = static_cast<Request*>(data);
  request->self->finish(request, status);
}

void Ucx::on_recv(void*, ucs_status_t status, const ucp_tag_recv_info_t* info, void* data) {
  auto* request = static_cast<Request*>(data);
  Ucx& self = *request->self;
  if (status == UCS_ERR_MESSAGE_TRUNCATED || (status == UCS_OK && info->length != request->bytes)) {
    self.lose(*self.peers_[request->peer],
              concat("sent a message of ", info->length, " bytes where ", request->bytes,
                     " were expected"));
    status = UCS_ERR_CANCELED;
  }
  self.finish(request, status);
}

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
  self.events_.control.push_back(
      {static_cast<int>(from.sender), std::string(static_cast<const char*>(payload), bytes)});
  return UCS_OK;
}

void Ucx::on_error(void* data, ucp_ep_h, ucs_status_t status) {
  Peer& peer = *static_cast<Peer*>(data);
  peer.self->lose(peer, peer.self->ucx_.ucs_status_string(status));
}

void Ucx::send(int to, std::uint64_t tag, const void* data, std::size_t bytes, Token token) {
  Peer& peer = *peers_[to];
  if (peer.lost) return;
  Request* request = new_request(to);
  request->has_token = true;
  request->token = token;
  ucp_request_param_t param{};
  param.op_attr_mask =
      UCP_OP_ATTR_FIELD_CALLBACK | UCP_OP_ATTR_FIELD_USER_DATA | UCP_OP_ATTR_FIELD_MEMORY_TYPE;
  param.cb.send = on_send;
  param.user_data = request;
  param.memory_type = UCS_MEMORY_TYPE_HOST;
  void* handle =
      ucx_.ucp_tag_send_nbx(peer.endpoint, data, bytes, wire_tag(rank_, token_, tag), &param);
  if (UCS_PTR_IS_PTR(handle))
    request->handle = handle;
  else
    finish(request, UCS_PTR_STATUS(handle));
}

void Ucx::recv(int from, std::uint64_t tag, void* data, std::size_t bytes, Token token) {
  if (peers_[from]->lost) return;
  Request* request = new_request(from);
  request->has_token = true;
  request->token = token;
  request->is_recv = true;
  request->bytes = bytes;
  ucp_request_param_t param{};
  // Always by callback: the size is checked there.
  param.op_attr_mask = UCP_OP_ATTR_FIELD_CALLBACK | UCP_OP_ATTR_FIELD_USER_DATA |
                       UCP_OP_ATTR_FIELD_MEMORY_TYPE | UCP_OP_ATTR_FLAG_NO_IMM_CMPL;
  param.cb.recv = on_recv;
  param.user_data = request;
  param.memory_type = UCS_MEMORY_TYPE_HOST;
  void* handle =
      ucx_.ucp_tag_recv_nbx(worker_, data, bytes, wire_tag(from, token_, tag), ~0ull, &param);
  if (!UCS_PTR_IS_PTR(handle)) {
    finish(request, UCS_PTR_STATUS(handle));
    return;
  }
  if (ucx_.ucp_request_check_status(handle) == UCS_INPROGRESS)
    request->handle = handle;
  else
    ucx_.ucp_request_free(handle);  // the callback has already run, without knowing the handle
}

void Ucx::control(int to, const std::string& bytes) {
  Peer& peer = *peers_[to];
  if (peer.lost) return;
  Request* request = new_request(to);
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
  void* handle =
      ucx_.ucp_am_send_nbx(peer.endpoint, control_id, request->payload.data(), sizeof header,
                           request->payload.data() + sizeof header, bytes.size(), &param);
  if (UCS_PTR_IS_PTR(handle))
    request->handle = handle;
  else
    finish(request, UCS_PTR_STATUS(handle));
}

void Ucx::check_processes() {
  epoll_event gone[8];
  const int count = epoll_wait(processes_fd_, gone, 8, 0);
  for (int i = 0; i < count; ++i) {
    Peer& peer = *peers_[gone[i].data.u32];
    epoll_ctl(processes_fd_, EPOLL_CTL_DEL, peer.pidfd, nullptr);
    lose(peer, "its process ended");
  }
}

void Ucx::progress(Events& events) {
  while (ucx_.ucp_worker_progress(worker_)) {
  }
  if (!events_.empty()) events.take(events_);
}

bool Ucx::arm() {
  check_processes();
  if (!events_.empty()) return false;
  return ucx_.ucp_worker_arm(worker_) == UCS_OK;
}

std::vector<int> Ucx::event_fds() const { return {worker_fd_, processes_fd_}; }

template <typename Pending>
bool Ucx::drain(double timeout_s, Pending pending) {
  const double deadline_s = now_s() + timeout_s;
  while (pending()) {
    if (ucx_.ucp_worker_progress(worker_)) continue;
    if (now_s() > deadline_s) return false;
    pollfd fd{worker_fd_, POLLIN, 0};
    if (ucx_.ucp_worker_arm(worker_) == UCS_OK) poll(&fd, 1, 10);
  }
  return true;
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

void Ucx::abandon() {
  if (!worker_ || abandoned_) return;
  abandoned_ = true;
  for (auto& request : requests_)
    if (request->is_recv && request->handle) ucx_.ucp_request_cancel(worker_, request->handle);
  close_endpoints(forced_close_s, true);
  drain(forced_close_s, [this] { return free_.size() < requests_.size(); });
  events_.clear();
}

void Ucx::close(double timeout_s) {
  if (!worker_) return;
  if (!abandoned_) {
    // What was sent is flushed to those that still listen; then nothing is left to hear.
    close_endpoints(timeout_s, timeout_s <= 0);
    abandoned_ = true;
    for (auto& request : requests_)
      if (request->is_recv && request->handle) ucx_.ucp_request_cancel(worker_, request->handle);
    drain(forced_close_s, [this] { return free_.size() < requests_.size(); });
  }
  for (auto& peer : peers_)
    if (peer->pidfd >= 0) ::close(peer->pidfd);
  ::close(processes_fd_);
  const Quiet quiet(ucx_);
  ucx_.ucp_worker_destroy(worker_);
  ucx_.ucp_cleanup(context_);
  worker_ = nullptr;
}

std::string Ucx::describe(int peer) const {
  return printed(
      [&](std::FILE* stream) { ucx_.ucp_ep_print_info(peers_[peer]->endpoint, stream); });
}

std::vector<std::string> ucx_memory_types(const UcxLibrary& library) {
  const ucp_context_h context = new_context(library, "");
  ucp_context_attr_t attributes{};
  attributes.field_mask = UCP_ATTR_FIELD_MEMORY_TYPES;
  library.ucp_context_query(context, &attributes);
  library.ucp_cleanup(context);
  std::vector<std::string> names;
  for (const auto& [type, name] :
       {std::pair{UCS_MEMORY_TYPE_HOST, "host"}, std::pair{UCS_MEMORY_TYPE_CUDA, "cuda"},
        std::pair{UCS_MEMORY_TYPE_CUDA_MANAGED, "cuda-managed"},
        std::pair{UCS_MEMORY_TYPE_ROCM, "rocm"}})
    if (UCS_BIT(type) & attributes.memory_types) names.push_back(name);
  return names;
}

}  // namespace patallreduce
