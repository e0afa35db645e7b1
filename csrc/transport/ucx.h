// UCX: shared memory and TCP from the PyPI wheel, InfiniBand and RoCE from a system UCX.
//
// Tag messages carry segments, active messages carry control. Endpoints are opened with peer
// error handling, and shared memory is told to take part in it: by default that mode falls back
// to TCP on one host, at a tenth of the speed. Peers on this host are also watched by pidfd, so
// that a death is seen at once rather than at UCX's next keepalive.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "transport/transport.h"
#include "transport/ucx_library.h"

namespace patallreduce {

class Ucx final : public Transport {
 public:
  // `token`: a random number shared by all ranks of the communicator; messages without it are
  // dropped. `net_devices`: as UCX_NET_DEVICES, "" for UCX's own choice.
  Ucx(const UcxLibrary& library, int rank, int ranks, std::uint64_t token,
      const std::string& net_devices);
  ~Ucx() override;

  // What the other ranks need to reach this one; opaque, a few hundred bytes.
  std::string address() const;
  // Opens an endpoint to every rank. addresses[rank] as from address().
  void connect(const std::vector<std::string>& addresses);

  // The lanes UCX chose for a peer, for `info`.
  std::string describe(int peer) const;

  const char* name() const override { return "ucx"; }
  int rank() const override { return rank_; }
  int ranks() const override { return ranks_; }
  void send(int to, std::uint64_t tag, const void* data, std::size_t bytes, Token token) override;
  void recv(int from, std::uint64_t tag, void* data, std::size_t bytes, Token token) override;
  void control(int to, const std::string& bytes) override;
  void progress(Events& events) override;
  bool arm() override;
  std::vector<int> event_fds() const override;
  void abandon() override;
  void close(double timeout_s) override;

 private:
  struct Peer;
  struct Request;

  Request* new_request(int peer);
  void finish(Request* request, ucs_status_t status);
  void lose(Peer& peer, const std::string& reason);
  void check_processes();
  // Progresses until `pending()` is 0 or the time is up; true if it became 0.
  template <typename Pending>
  bool drain(double timeout_s, Pending pending);
  void close_endpoints(double timeout_s, bool force);

  static void on_send(void* handle, ucs_status_t status, void* request);
  static void on_recv(void* handle, ucs_status_t status, const ucp_tag_recv_info_t* info,
                      void* request);
  static ucs_status_t on_control(void* self, const void* header, std::size_t header_bytes,
                                 void* data, std::size_t bytes, const ucp_am_recv_param_t* param);
  static void on_error(void* peer, ucp_ep_h endpoint, ucs_status_t status);

  const UcxLibrary& ucx_;
  int rank_;
  int ranks_;
  std::uint64_t token_;
  ucp_context_h context_ = nullptr;
  ucp_worker_h worker_ = nullptr;
  int worker_fd_ = -1;
  int processes_fd_ = -1;  // epoll over the pidfds of peers on this host
  std::vector<std::unique_ptr<Peer>> peers_;
  std::vector<std::unique_ptr<Request>> requests_;  // all ever made, reused through free_
  std::vector<Request*> free_;
  Events events_;
  bool abandoned_ = false;
};

// What `info` prints: one line each.
std::string ucx_transports(const UcxLibrary& library);
std::vector<std::string> ucx_memory_types(const UcxLibrary& library);

}  // namespace patallreduce
