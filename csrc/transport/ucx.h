// UCX: shared memory and TCP from the PyPI wheel, InfiniBand and RoCE from a system UCX.
//
// Tag messages carry segments, active messages carry control. Endpoints are opened with peer
// error handling, and shared memory is told to take part in it: by default that mode falls back
// to TCP on one host, at a tenth of the speed. Peers on this host are also watched by pidfd, so
// that a death is seen at once rather than at UCX's next keepalive.
//
// With that error handling UCX moves shared memory in two copies, through 8 KiB pieces. Large
// messages between neighbours that can read each other go in one: the sender offers an address,
// the receiver copies from it and acknowledges.
//
//   sender    tag message: offer (40 bytes)          finished
//   receiver           copy from the sender's memory, acknowledgement ->
//
// A window of bytes in a round trip is all that TCP lets a connection carry, however wide the way.
// Who asks for several has long messages divided among all but the first:
//
//   sender    tag message: division (24 bytes), then the parts, each a tag message   finished
//   receiver           receive the parts                                             finished
//
// Tags depend on a key of the ranks; control messages, offers, divisions and acknowledgements carry
// a code, control messages and acknowledgements also a number (keyed_tags.h). What has a wrong
// code, or a number that is not above the last one from its sender, is dropped; an offer or
// division is then waited for again.
#pragma once

#include <atomic>
#include <deque>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "transport/keyed_tags.h"
#include "transport/sockets.h"
#include "transport/transport.h"
#include "transport/ucx_context.h"

namespace patallreduce::transport {

class Ucx final : public Transport {
 public:
  // `key`: shared by all ranks, and new: a key used before lets old messages be repeated.
  Ucx(const UcxLibrary& library, int rank, int ranks, const Key& key, const UcxChoice& choice);
  ~Ucx() override;

  // What the other ranks need to reach this one, before connect(); opaque, a few hundred bytes.
  std::string address() const;
  // Opens an endpoint to every rank. addresses[rank] as from address().
  void connect(const std::vector<std::string>& addresses);

  // The ranks whose memory this one can read; after connect().
  std::vector<int> readable() const;
  // The ranks with which large messages go in one copy: each must be readable from the other.
  void set_direct(const std::vector<int>& ranks);

  const char* name() const override { return "ucx"; }
  int rank() const override { return rank_; }
  int ranks() const override { return ranks_; }
  void send(int to, std::uint64_t tag, const void* data, std::size_t bytes, Token token) override;
  void recv(int from, std::uint64_t tag, void* data, std::size_t bytes, Token token) override;
  void control(int to, const std::string& bytes) override;
  void progress(Events& events) override;
  bool sends_at_memory_speed() const override { return direct_peers_ == ranks_ - 1; }
  bool only_sockets() const override { return only_sockets_; }
  std::vector<std::set<End>> ends() const override { return ends_of_; }
  bool arm() override;
  std::vector<int> event_fds() const override;
  // In a forked child: without its parent's connections, which stand as long as anybody has one.
  void close_in_child() const { transport::close_in_child(ends_); }
  void abandon() override;
  void close(double timeout_s) override;

 private:
  struct Peer;
  struct Request;
  enum class RequestKind { none, send, recv, control };

  void open_connections(Peer& peer, const std::string& address);
  Request* new_request(RequestKind kind, int peer, std::uint64_t tag);
  void start(Request* request, void* handle);  // what UCX returned for it
  void end(Request* request, ucs_status_t status);
  void fail(Request* request);
  void finish(Request* request);
  void send_message(ucp_ep_h endpoint, const void* data, std::size_t bytes, Request* request);
  template <typename Begin>
  void each_part(Request* whole, std::size_t bytes, Begin begin);
  void send_control(int to, unsigned id, const std::string& bytes);
  void receive(Request* request);
  bool has_size(Request* request, std::size_t bytes);
  void take_offer(Request* request);
  void take_division(Request* request);
  void acknowledged(int from, std::uint64_t index, std::uint64_t generation);
  void turn_worker();
  void lose(Peer& peer, const std::string& reason);
  void check_processes();
  void cancel_all();
  void flush(double timeout_s);
  void close_endpoints(double timeout_s, bool force);
  // Progresses until `pending()` is false or the time is up.
  template <typename Pending>
  void drain(double timeout_s, Pending pending);

  static void on_send(void* handle, ucs_status_t status, void* request);
  static void on_recv(void* handle, ucs_status_t status, const ucp_tag_recv_info_t* info,
                      void* request);
  template <unsigned id>
  static ucs_status_t on_control(void* self, const void* header, std::size_t header_bytes,
                                 void* data, std::size_t bytes, const ucp_am_recv_param_t* param);
  static void on_error(void* peer, ucp_ep_h endpoint, ucs_status_t status);

  const UcxLibrary& ucx_;
  int rank_;
  int ranks_;
  Key key_;
  int connections_;  // with each rank
  ucp_context_h context_ = nullptr;
  ucp_worker_h worker_ = nullptr;
  int worker_fd_ = -1;
  int processes_fd_ = -1;  // epoll over the pidfds of peers on this host
  std::vector<std::unique_ptr<Peer>> peers_;
  std::vector<std::unique_ptr<Request>> requests_;  // all ever made, reused through free_
  std::vector<Request*> free_;
  std::deque<Request*> announced_;      // whose offer or division is received
  std::set<End> ends_;                  // where its ranks listen, this one included
  std::vector<std::set<End>> ends_of_;  // the same by rank, once connected
  Events events_;
  int direct_peers_ = 0;
  bool only_sockets_ = false;
  // Neighbours look at it after each copy; cleared before this rank's memory may change unread.
  std::atomic<std::uint64_t> standing_;
  bool abandoned_ = false;
};

}  // namespace patallreduce::transport
