// NCCL, opened at run time: the copy that torch has loaded, or the one at a given path.
//
// Declared here is what is called, of NCCL's public interface (nccl.h) as it has been since 2.14;
// a build needs nothing of NCCL.
#pragma once

#include <climits>
#include <cstddef>
#include <string>

namespace patallreduce::gpu {

extern "C" {

struct PatrNcclComm;  // ncclComm

struct PatrNcclUniqueId {  // ncclUniqueId
  char internal[128];
};

// The head of ncclConfig_t: NCCL takes the rest, by `size` and `version`, as not given.
struct PatrNcclConfig {
  std::size_t size = sizeof(PatrNcclConfig);
  unsigned magic = 0xcafebeef;
  unsigned version = 21400;
  int blocking = 0;
  int cga_cluster_size = INT_MIN;
};

}  // extern "C"

// ncclResult_t
constexpr int nccl_success = 0;
constexpr int nccl_in_progress = 7;
// ncclDataType_t: ncclInt8. Messages are bytes.
constexpr int nccl_bytes = 0;

struct NcclLibrary {
  std::string path;     // of what was opened
  std::string version;  // "2.27.3"

  int (*ncclGetVersion)(int* version);
  const char* (*ncclGetErrorString)(int result);
  const char* (*ncclGetLastError)(PatrNcclComm* comm);
  int (*ncclGetUniqueId)(PatrNcclUniqueId* id);
  int (*ncclCommInitRankConfig)(PatrNcclComm** comm, int ranks, PatrNcclUniqueId id, int rank,
                                PatrNcclConfig* config);
  int (*ncclCommGetAsyncError)(PatrNcclComm* comm, int* error);
  int (*ncclCommFinalize)(PatrNcclComm* comm);
  int (*ncclCommDestroy)(PatrNcclComm* comm);
  int (*ncclCommAbort)(PatrNcclComm* comm);
  int (*ncclGroupStart)();
  int (*ncclGroupEnd)();
  int (*ncclSend)(const void* memory, std::size_t count, int type, int peer, PatrNcclComm* comm,
                  void* stream);
  int (*ncclRecv)(void* memory, std::size_t count, int type, int peer, PatrNcclComm* comm,
                  void* stream);

  // `path` may be a name that the loader knows, as "libnccl.so.2". Opened once, for good.
  // Throws TransportError saying what is missing.
  static const NcclLibrary& open(const std::string& path);

  // What rank 0 makes and gives to all others. Throws TransportError.
  PatrNcclUniqueId unique_id() const;
};

}  // namespace patallreduce::gpu
