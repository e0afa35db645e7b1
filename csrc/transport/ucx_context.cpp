#include "transport/ucx_context.h"

#include <cstdio>
#include <cstdlib>
#include <sstream>

#include "errors.h"

namespace patallreduce::transport {

ucp_context_h new_ucx_context(const UcxLibrary& ucx, const UcxChoice& choice) {
  ucp_config_t* config;
  const auto check = [&ucx](ucs_status_t status, const char* what) {
    PATR_CHECK(status == UCS_OK, TransportError, "UCX ", ucx.version, " at ", ucx.path, ": ", what,
               ": ", ucx.ucs_status_string(status));
  };
  check(ucx.ucp_config_read(nullptr, nullptr, &config), "reading its configuration");
  // Peer error handling leaves shared memory out unless told so. An unknown name is no error.
  for (const char* name : {"POSIX_ERROR_HANDLING", "SYSV_ERROR_HANDLING"})
    ucx.ucp_config_modify(config, name, "y");
  ucx.ucp_config_modify(config, "KEEPALIVE_INTERVAL", "500ms");
  // Over several, a long control message comes after a short one sent later.
  ucx.ucp_config_modify(config, "MAX_EAGER_RAILS", "1");
  // Without these hooks UCX keeps no registrations of memory; version 1.21 then reads a null
  // pointer when it cancels a rendezvous.
  const char* hooks = std::getenv("UCX_MEM_MMAP_HOOK_MODE");
  if (hooks && std::string(hooks) == "none") ucx.ucp_config_modify(config, "RNDV_THRESH", "inf");
  const auto choose = [&](const char* name, const std::string& value) {
    if (!value.empty()) check(ucx.ucp_config_modify(config, name, value.c_str()), name);
  };
  choose("TLS", choice.transports);
  choose("NET_DEVICES", choice.net_devices);
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

std::vector<std::string> ucx_memory_types(const UcxLibrary& ucx) {
  const ucp_context_h context = new_ucx_context(ucx, {});
  ucp_context_attr_t attributes{};
  attributes.field_mask = UCP_ATTR_FIELD_MEMORY_TYPES;
  ucx.ucp_context_query(context, &attributes);
  ucx.ucp_cleanup(context);
  std::vector<std::string> names;
  for (const auto& [type, name] :
       {std::pair{UCS_MEMORY_TYPE_HOST, "host"}, std::pair{UCS_MEMORY_TYPE_CUDA, "cuda"},
        std::pair{UCS_MEMORY_TYPE_CUDA_MANAGED, "cuda-managed"},
        std::pair{UCS_MEMORY_TYPE_ROCM, "rocm"}})
    if (UCS_BIT(type) & attributes.memory_types) names.push_back(name);
  return names;
}

std::vector<std::string> ucx_resources(const UcxLibrary& ucx) {
  const ucp_context_h context = new_ucx_context(ucx, {});
  auto found = ucx_resources(ucx, context);
  ucx.ucp_cleanup(context);
  return found;
}

std::vector<std::string> ucx_resources(const UcxLibrary& ucx, ucp_context_h context) {
  char* text = nullptr;
  std::size_t length = 0;
  std::FILE* stream = open_memstream(&text, &length);
  ucx.ucp_context_print_info(context, stream);
  std::fclose(stream);
  // Lines of interest: "#  resource 3  :  md 1  dev 1  flags -- tcp/eth0".
  std::istringstream lines(std::string(text, length));
  std::free(text);
  std::vector<std::string> found;
  for (std::string line; std::getline(lines, line);) {
    const std::size_t last = line.find_last_of(' ');
    if (line.find("resource") == std::string::npos || last == std::string::npos) continue;
    const std::string resource = line.substr(last + 1);
    if (resource.find('/') != std::string::npos) found.push_back(resource);
  }
  return found;
}

}  // namespace patallreduce::transport
