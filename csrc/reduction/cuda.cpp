#include "reduction/cuda.h"

#include <dlfcn.h>

#include <map>
#include <memory>
#include <mutex>

#include "errors.h"

namespace patallreduce::reduction {

namespace {

// Never closed, since CUDA does not survive it; nor destroyed, since threads of whoever was not
// closed still call at the process's end.
std::mutex& mutex = *new std::mutex;
auto& libraries = *new std::map<std::string, std::unique_ptr<CudaLibrary>>;

template <typename Function>
void find(void* handle, const std::string& path, const char* name, Function*& function) {
  function = reinterpret_cast<Function*>(dlsym(handle, name));
  PATR_CHECK(function != nullptr, CudaError, "CUDA kernels: ", path, " has no ", name,
             "; expected the library built together with this core");
}

}  // namespace

const CudaLibrary& CudaLibrary::open(const std::string& path) {
  std::lock_guard lock(mutex);
  std::unique_ptr<CudaLibrary>& known = libraries[path];
  if (known) return *known;
  void* handle = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
  PATR_CHECK(handle != nullptr, CudaError, "CUDA kernels: cannot open ", path, ": ", dlerror(),
             ". They are built where the installation finds nvcc (on the PATH, in CUDA_HOME, or "
             "PATALLREDUCE_NVCC); PATALLREDUCE_WITH_CUDA=1 insists on them");
  auto found = std::make_unique<CudaLibrary>();
  found->path = path;
#define FIND(function) find(handle, path, #function, found->function)
  FIND(patr_cuda_interface);
  const int version = found->patr_cuda_interface();
  PATR_CHECK(version == patr_cuda_interface_version, CudaError, "CUDA kernels: expected interface ",
             patr_cuda_interface_version, ", got ", version, " of ", path,
             ", which is of another build; install patallreduce again");
  FIND(patr_cuda_build);
  FIND(patr_cuda_error_name);
  FIND(patr_cuda_error_text);
  FIND(patr_cuda_versions);
  FIND(patr_cuda_device_count);
  FIND(patr_cuda_device);
  FIND(patr_cuda_combine);
  FIND(patr_cuda_scale_copy);
  FIND(patr_cuda_divide);
  FIND(patr_cuda_stream_create);
  FIND(patr_cuda_stream_destroy);
  FIND(patr_cuda_stream_wait);
  FIND(patr_cuda_stream_captures);
  FIND(patr_cuda_event_create);
  FIND(patr_cuda_event_destroy);
  FIND(patr_cuda_event_record);
  FIND(patr_cuda_event_query);
  FIND(patr_cuda_stream_synchronise);
  FIND(patr_cuda_copy);
  FIND(patr_cuda_allocate);
  FIND(patr_cuda_release);
  FIND(patr_cuda_allocate_pinned);
  FIND(patr_cuda_release_pinned);
  FIND(patr_cuda_set_current);
#undef FIND
  known = std::move(found);
  return *known;
}

int CudaLibrary::device_count() const {
  int driver = 0, kernels = 0, count = 0;
  patr_cuda_versions(&driver, &kernels);
  PATR_CHECK(driver > 0, CudaError, "no CUDA driver (libcuda.so.1) on this machine");
  // Drivers of one major version run all its kernels.
  PATR_CHECK(driver / 1000 >= kernels / 1000, CudaError, "expected a driver for CUDA ",
             kernels / 1000, ", with which the kernels were built, or newer; got one for CUDA ",
             driver / 1000, ".", driver % 1000 / 10);
  const int error = patr_cuda_device_count(&count);
  PATR_CHECK(error == 0, CudaError, patr_cuda_error_text(error), " (", patr_cuda_error_name(error),
             ")");
  PATR_CHECK(count > 0, CudaError, "CUDA sees no device");
  return count;
}

void CudaLibrary::fail(int error, int device, const std::string& doing) const {
  throw CudaError(concat("CUDA device ", device, ": ", doing, ": ", patr_cuda_error_text(error),
                         " (", patr_cuda_error_name(error), ")"),
                  device);
}

CudaReduction::CudaReduction(const CudaLibrary& library, int device, int blocks_per_multiprocessor)
    : library_(library), device_(device) {
  const int count = library.device_count();
  PATR_CHECK(device >= 0 && device < count, CudaError, "CUDA: expected a device of 0 to ",
             count - 1, ", got ", device);
  PATR_CHECK(blocks_per_multiprocessor > 0, std::invalid_argument,
             "CUDA: expected at least 1 block per multiprocessor, got ", blocks_per_multiprocessor);
  const int error = library.patr_cuda_device(device, &facts_);
  if (error != 0)
    library.fail(error, device,
                 concat(facts_.name, " of sm_", facts_.major, facts_.minor,
                        " with kernels built for ", library.patr_cuda_build()));
  blocks_ = facts_.multiprocessors * blocks_per_multiprocessor;
}

// Asked on the host: the device would answer with an error that ends all CUDA in the process.
void CudaReduction::check_aligned(const void* address, Dtype dtype) const {
  if (reinterpret_cast<std::uintptr_t>(address) % size_of(dtype) == 0) return;
  throw CudaError(concat("CUDA device ", device_, ": expected ", reduction::name(dtype),
                         " at a multiple of ", size_of(dtype), " bytes, got address ", address),
                  device_);
}

void CudaReduction::combine(void* out, void* also, const void* received, const void* held,
                            std::size_t count, Dtype dtype, Op op, double scale,
                            void* stream) const {
  for (const void* address :
       {static_cast<const void*>(out), static_cast<const void*>(also), received, held})
    check_aligned(address, dtype);
  const PatrCudaLaunch where = on(stream);
  const int error = library_.patr_cuda_combine(&where, out, also, received, held, count, int(dtype),
                                               int(op), scale);
  if (error != 0)
    library_.fail(error, device_,
                  concat(reduction::name(op), " of ", count, " ", reduction::name(dtype)));
}

void CudaReduction::scale_copy(void* out, const void* in, std::size_t count, Dtype dtype,
                               double scale, void* stream) const {
  check_aligned(out, dtype);
  check_aligned(in, dtype);
  const PatrCudaLaunch where = on(stream);
  const int error = library_.patr_cuda_scale_copy(&where, out, in, count, int(dtype), scale);
  if (error != 0)
    library_.fail(error, device_,
                  concat("copy of ", count, " ", reduction::name(dtype), " times ", scale));
}

void CudaReduction::divide(void* data, std::size_t count, Dtype dtype, std::int64_t divisor,
                           void* stream) const {
  PATR_CHECK(divisor >= 1, std::invalid_argument, "divide: expected a divisor >= 1, got ", divisor);
  check_aligned(data, dtype);
  const PatrCudaLaunch where = on(stream);
  const int error = library_.patr_cuda_divide(&where, data, count, int(dtype), divisor);
  if (error != 0)
    library_.fail(error, device_,
                  concat("division of ", count, " ", reduction::name(dtype), " by ", divisor));
}

}  // namespace patallreduce::reduction
