// A UCX context, configured as this project needs it.
#pragma once

#include <mutex>
#include <string>
#include <vector>

#include "transport/ucx_library.h"

namespace patallreduce::transport {

struct UcxChoice {
  // As the variables UCX_TLS and UCX_NET_DEVICES; "": what they say, or UCX's own choice.
  std::string transports;
  std::string net_devices;
  int connections = 1;  // with each rank, to 16
};

ucp_context_h new_ucx_context(const UcxLibrary& ucx, const UcxChoice& choice);

// The memory a context can move, e.g. {"host", "cuda"}.
std::vector<std::string> ucx_memory_types(const UcxLibrary& ucx);

// Transport and device of every resource of a context, e.g. "tcp/eth0".
std::vector<std::string> ucx_resources(const UcxLibrary& ucx, ucp_context_h context);
std::vector<std::string> ucx_resources(const UcxLibrary& ucx);  // of a new context

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

}  // namespace patallreduce::transport
