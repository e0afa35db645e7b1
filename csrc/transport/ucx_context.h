// A UCX context, configured as this project needs it.
#pragma once

#include <string>
#include <vector>

#include "transport/ucx_library.h"

namespace patallreduce {

// `net_devices`: as UCX_NET_DEVICES, "" for UCX's own choice.
ucp_context_h new_ucx_context(const UcxLibrary& ucx, const std::string& net_devices);

// The memory a context can move, e.g. {"host", "cuda"}.
std::vector<std::string> ucx_memory_types(const UcxLibrary& ucx);

// Transport and device of every resource of a context, e.g. "tcp/eth0".
std::vector<std::string> ucx_resources(const UcxLibrary& ucx, ucp_context_h context);
std::vector<std::string> ucx_resources(const UcxLibrary& ucx);  // of a new context

}  // namespace patallreduce
