// csrc/gpu/nccl/nccl_library.h beside the real nccl.h: compiles only if calls through our
// declarations pass what NCCL's own would.
#include <nccl.h>

#include <cstddef>
#include <type_traits>

#include "gpu/nccl/library.h"

using namespace patallreduce::gpu;

namespace {

// Enumerators stand for integers of the same size, a struct for one of the same size, a pointer for
// one to what is alike; what is opaque or void may be anything.
template <typename Ours, typename Theirs>
constexpr bool alike() {
  if constexpr (std::is_pointer_v<Ours> && std::is_pointer_v<Theirs>) {
    using Our = std::remove_pointer_t<Ours>;
    using Their = std::remove_pointer_t<Theirs>;
    if constexpr (std::is_pointer_v<Our>) {
      return alike<Our, Their>();
    } else if constexpr (std::is_integral_v<Our>) {
      return sizeof(Our) == sizeof(Their) && std::is_integral_v<Their> | std::is_enum_v<Their>;
    } else {
      return std::is_class_v<Our> || std::is_void_v<Our>;
    }
  } else {
    constexpr bool integers = (std::is_integral_v<Ours> || std::is_enum_v<Ours>) &&
                              (std::is_integral_v<Theirs> || std::is_enum_v<Theirs>);
    constexpr bool structs = std::is_class_v<Ours> && std::is_class_v<Theirs>;
    return sizeof(Ours) == sizeof(Theirs) && alignof(Ours) == alignof(Theirs) &&
           (integers || structs);
  }
}

template <typename Ours, typename Theirs>
struct SameCall : std::false_type {};
template <typename Our, typename Their, typename... Ours, typename... Theirs>
struct SameCall<Our (*)(Ours...), Their (*)(Theirs...)> {
  static constexpr bool check() {
    if constexpr (sizeof...(Ours) != sizeof...(Theirs)) {
      return false;
    } else {
      return alike<Our, Their>() && (alike<Ours, Theirs>() && ...);
    }
  }
  static constexpr bool value = check();
};

#define CALLED(function) \
  static_assert(SameCall<decltype(NcclLibrary::function), decltype(&::function)>::value)
CALLED(ncclGetVersion);
CALLED(ncclGetErrorString);
CALLED(ncclGetLastError);
CALLED(ncclGetUniqueId);
CALLED(ncclCommInitRankConfig);
CALLED(ncclCommGetAsyncError);
CALLED(ncclCommFinalize);
CALLED(ncclCommDestroy);
CALLED(ncclCommAbort);
CALLED(ncclGroupStart);
CALLED(ncclGroupEnd);
CALLED(ncclSend);
CALLED(ncclRecv);

static_assert(nccl_success == ncclSuccess && nccl_in_progress == ncclInProgress);
static_assert(nccl_bytes == ncclInt8);
static_assert(sizeof(PatrNcclUniqueId) == NCCL_UNIQUE_ID_BYTES);

// NCCL copies `size` bytes over its defaults, so ours may end early, but not differ before.
#define AT(ours, theirs)                                                            \
  static_assert(offsetof(PatrNcclConfig, ours) == offsetof(ncclConfig_t, theirs) && \
                sizeof(PatrNcclConfig::ours) == sizeof(ncclConfig_t::theirs))
AT(size, size);
AT(magic, magic);
AT(version, version);
AT(blocking, blocking);
AT(cga_cluster_size, cgaClusterSize);
static_assert(sizeof(PatrNcclConfig) <= sizeof(ncclConfig_t));

constexpr PatrNcclConfig ours;
static_assert(ours.magic == NCCL_API_MAGIC);
static_assert(ours.version == NCCL_VERSION(2, 14, 0) && ours.version <= NCCL_VERSION_CODE);
static_assert(ours.cga_cluster_size == NCCL_CONFIG_UNDEF_INT);

}  // namespace
