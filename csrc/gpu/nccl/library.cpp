#include "gpu/nccl/library.h"

#include <dlfcn.h>

#include <map>
#include <memory>
#include <mutex>

#include "errors.h"

namespace patallreduce::gpu {

namespace {

constexpr int oldest = 21400;  // communicators that can be given up while they are made

// Never closed, nor destroyed: threads may still call at the process's end.
std::mutex& mutex = *new std::mutex;
auto& libraries = *new std::map<std::string, std::unique_ptr<NcclLibrary>>;

template <typename Function>
void find(void* handle, const std::string& path, const char* name, Function*& function) {
  function = reinterpret_cast<Function*>(dlsym(handle, name));
  PATR_CHECK(function != nullptr, TransportError, "NCCL: ", path, " has no ", name,
             "; expected NCCL 2.14 or newer");
}

}  // namespace

const NcclLibrary& NcclLibrary::open(const std::string& path) {
  std::lock_guard lock(mutex);
  std::unique_ptr<NcclLibrary>& known = libraries[path];
  if (known) return *known;
  // A library that the process has loaded under this name already is the one that is meant.
  void* handle = dlopen(path.c_str(), RTLD_NOW | RTLD_NOLOAD);
  if (handle == nullptr) handle = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
  PATR_CHECK(handle != nullptr, TransportError, "NCCL: cannot open ", path, ": ", dlerror(),
             ". A torch for CUDA brings it");
  auto found = std::make_unique<NcclLibrary>();
#define FIND(function) find(handle, path, #function, found->function)
  FIND(ncclGetVersion);
  FIND(ncclGetErrorString);
  FIND(ncclGetLastError);
  FIND(ncclGetUniqueId);
  FIND(ncclCommInitRankConfig);
  FIND(ncclCommGetAsyncError);
  FIND(ncclCommFinalize);
  FIND(ncclCommDestroy);
  FIND(ncclCommAbort);
  FIND(ncclGroupStart);
  FIND(ncclGroupEnd);
  FIND(ncclSend);
  FIND(ncclRecv);
#undef FIND
  Dl_info info;
  found->path = dladdr(reinterpret_cast<void*>(found->ncclGetVersion), &info) && info.dli_fname
                    ? info.dli_fname
                    : path;
  int version = 0;
  found->ncclGetVersion(&version);
  found->version = concat(version / 10000, ".", version / 100 % 100, ".", version % 100);
  PATR_CHECK(version >= oldest, TransportError, "NCCL: version code ", version, " at ", found->path,
             " is too old: expected 2.14 or newer");
  known = std::move(found);
  return *known;
}

PatrNcclUniqueId NcclLibrary::unique_id() const {
  PatrNcclUniqueId id;
  const int result = ncclGetUniqueId(&id);
  PATR_CHECK(result == nccl_success, TransportError,
             "NCCL: no unique id: ", ncclGetErrorString(result), " (", ncclGetLastError(nullptr),
             ")");
  return id;
}

}  // namespace patallreduce::gpu
