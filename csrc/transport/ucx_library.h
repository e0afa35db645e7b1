// UCX opened at run time: the core links nothing, and says which copy it found.
#pragma once

#include <ucp/api/ucp.h>

#include <cstddef>
#include <string>

namespace patallreduce::transport {

// The functions used, as members of the same name. Only what UCX 1.13 already had.
struct UcxLibrary {
  std::string path;  // of libucp, as the loader resolved it
  std::string version;

  decltype(&::ucp_get_version) ucp_get_version;
  decltype(&::ucp_config_read) ucp_config_read;
  decltype(&::ucp_config_modify) ucp_config_modify;
  decltype(&::ucp_config_release) ucp_config_release;
  decltype(&::ucp_init_version) ucp_init_version;
  decltype(&::ucp_cleanup) ucp_cleanup;
  decltype(&::ucp_context_query) ucp_context_query;
  decltype(&::ucp_context_print_info) ucp_context_print_info;
  decltype(&::ucp_worker_create) ucp_worker_create;
  decltype(&::ucp_worker_destroy) ucp_worker_destroy;
  decltype(&::ucp_worker_query) ucp_worker_query;
  decltype(&::ucp_worker_release_address) ucp_worker_release_address;
  decltype(&::ucp_worker_progress) ucp_worker_progress;
  decltype(&::ucp_worker_flush_nbx) ucp_worker_flush_nbx;
  decltype(&::ucp_worker_get_efd) ucp_worker_get_efd;
  decltype(&::ucp_worker_arm) ucp_worker_arm;
  decltype(&::ucp_worker_set_am_recv_handler) ucp_worker_set_am_recv_handler;
  decltype(&::ucp_ep_create) ucp_ep_create;
  decltype(&::ucp_ep_close_nbx) ucp_ep_close_nbx;
  decltype(&::ucp_tag_send_nbx) ucp_tag_send_nbx;
  decltype(&::ucp_tag_recv_nbx) ucp_tag_recv_nbx;
  decltype(&::ucp_am_send_nbx) ucp_am_send_nbx;
  decltype(&::ucp_request_cancel) ucp_request_cancel;
  decltype(&::ucp_request_check_status) ucp_request_check_status;
  decltype(&::ucp_request_free) ucp_request_free;
  const char* (*ucs_status_string)(ucs_status_t);
  ucs_status_t (*ucs_global_opts_set_value)(const char* name, const char* value);
  ucs_status_t (*ucs_global_opts_get_value)(const char* name, char* value, std::size_t max);

  // Opens `libucp` (a path, or a bare name for the loader to find) once; later calls return the
  // same copy: two UCX in one process are trouble. Throws TransportError naming what is missing.
  static const UcxLibrary& open(const std::string& libucp);
};

}  // namespace patallreduce::transport
