#include "transport/ucx_library.h"

#include <dlfcn.h>

#include <memory>
#include <mutex>

#include "errors.h"

namespace patallreduce::transport {

namespace {

constexpr unsigned oldest_minor = 13;  // of UCX 1: the oldest release with all we call

std::mutex mutex;
std::unique_ptr<UcxLibrary> library;  // never closed: UCX does not survive dlclose

template <typename Function>
void find(void* handle, const char* name, Function*& function) {
  function = reinterpret_cast<Function*>(dlsym(handle, name));
  PATR_CHECK(function != nullptr, TransportError, "UCX: the library opened has no ", name,
             "; expected UCX 1.", oldest_minor, " or newer");
}

}  // namespace

const UcxLibrary& UcxLibrary::open(const std::string& libucp) {
  std::lock_guard lock(mutex);
  if (library) return *library;
  void* handle = dlopen(libucp.c_str(), RTLD_NOW | RTLD_LOCAL);
  PATR_CHECK(handle != nullptr, TransportError, "UCX: cannot open ", libucp, ": ", dlerror(),
             ". `pip install libucx-cu13` brings UCX; PATALLREDUCE_UCX=system takes the system's, "
             "PATALLREDUCE_UCX=/path/libucp.so.0 another");
  auto found = std::make_unique<UcxLibrary>();
#define FIND(function) find(handle, #function, found->function)
  FIND(ucp_get_version);
  FIND(ucp_config_read);
  FIND(ucp_config_modify);
  FIND(ucp_config_release);
  FIND(ucp_init_version);
  FIND(ucp_cleanup);
  FIND(ucp_context_query);
  FIND(ucp_context_print_info);
  FIND(ucp_worker_create);
  FIND(ucp_worker_destroy);
  FIND(ucp_worker_query);
  FIND(ucp_worker_release_address);
  FIND(ucp_worker_progress);
  FIND(ucp_worker_flush_nbx);
  FIND(ucp_worker_get_efd);
  FIND(ucp_worker_arm);
  FIND(ucp_worker_set_am_recv_handler);
  FIND(ucp_ep_create);
  FIND(ucp_ep_close_nbx);
  FIND(ucp_tag_send_nbx);
  FIND(ucp_tag_recv_nbx);
  FIND(ucp_am_send_nbx);
  FIND(ucp_request_cancel);
  FIND(ucp_request_check_status);
  FIND(ucp_request_free);
  FIND(ucs_status_string);  // libucp depends on libucs, so this handle finds it and the next two
  FIND(ucs_global_opts_set_value);
  FIND(ucs_global_opts_get_value);
#undef FIND
  unsigned major, minor, release;
  found->ucp_get_version(&major, &minor, &release);
  found->version = concat(major, ".", minor, ".", release);
  Dl_info info;
  found->path = dladdr(reinterpret_cast<void*>(found->ucp_get_version), &info) && info.dli_fname
                    ? info.dli_fname
                    : libucp;
  PATR_CHECK(major == 1 && minor >= oldest_minor, TransportError, "UCX ", found->version, " at ",
             found->path, " is too old: expected 1.", oldest_minor, " or newer");
  library = std::move(found);
  return *library;
}

}  // namespace patallreduce::transport
