// No file descriptor is left: an error that says so, where one is needed.
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>

#include "algorithms/internal_keys.h"
#include "algorithms/resolve.h"
#include "check.h"
#include "errors.h"
#include "transport/ucx.h"
#include "transport/ucx_request.h"

namespace patallreduce::native {

using executor::EngineOptions;
using transport::Key;
using transport::Loopback;
using transport::Ucx;
using transport::UcxChoice;
using transport::UcxLibrary;

namespace {

// Not by a limit: the sanitizers need descriptors of their own.
std::atomic<bool> none_left{false};

long descriptor(long number, long first, long second) {
  if (!none_left) return syscall(number, first, second);
  errno = EMFILE;
  return -1;
}

void fails(const std::string& expected, const std::function<void()>& make) {
  try {
    make();
  } catch (const TransportError& error) {
    if (error.what() != expected) failed(__FILE__, __LINE__, error.what());
    return;
  }
  failed(__FILE__, __LINE__, "expected: " + expected);
}

// UCX has its own by then; the one to see processes end by is still to come.
decltype(UcxLibrary::ucp_worker_set_am_recv_handler) set_handler;

ucs_status_t set_handler_then_take(ucp_worker_h worker, const ucp_am_handler_param_t* handler) {
  const ucs_status_t status = set_handler(worker, handler);
  none_left = handler->id == transport::acknowledgement_id;
  return status;
}

}  // namespace

void test_descriptors(Random&, const std::string& libucp) {
  const auto hub = std::make_shared<LoopbackHub>(1);
  const auto loopback = std::make_shared<Loopback>(hub, 0);
  none_left = true;
  fails("rank 0: no file descriptor left to wake a thread by",
        [&] { Engine(loopback, EngineOptions{0, true, 1, {}, algorithms::barrier_key()}); });
  fails("loopback: no file descriptor left for rank 0 of 1", [] { LoopbackHub(1); });
  none_left = false;
  if (libucp.empty()) return;
  UcxLibrary library = UcxLibrary::open(libucp);
  set_handler = library.ucp_worker_set_am_recv_handler;
  library.ucp_worker_set_am_recv_handler = set_handler_then_take;
  fails("UCX: cannot make a worker: no file descriptor left",
        [&] { Ucx(library, 0, 1, Key{}, UcxChoice{}); });
  none_left = false;
}

}  // namespace patallreduce::native

// Instead of the C library's, in all of this program.
extern "C" {
int eventfd(unsigned initial, int flags) noexcept {
  return static_cast<int>(patallreduce::native::descriptor(SYS_eventfd2, initial, flags));
}
int epoll_create1(int flags) noexcept {
  return static_cast<int>(patallreduce::native::descriptor(SYS_epoll_create1, flags, 0));
}
}
