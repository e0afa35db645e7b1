// A fake of the kernels' library: every thread's code runs on the processor, one thread after the
// other, in host memory. The core and the tests see the real library's interface.
#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <thread>

#include "cuda_streams.h"
#include "reduction/cuda_interface.h"
#include "reduction/gpu_kernel.h"

using namespace patallreduce::reduction;

namespace {

constexpr std::size_t element_bytes[dtype_count] = {4, 8, 2, 2, 4, 8, 1};
constexpr int no_kernel_image = 209, launch_failure = 719;
constexpr int threads_per_block = 32;  // so few that each thread has several vectors, and some none

template <typename Function>
void run(Work work, std::size_t threads) {
  split(work, sizeof(typename Function::Stored));
  // The last first: no result may depend on the order.
  for (std::size_t thread = threads; thread-- > 0;) run_thread<Function>(work, thread, threads);
}

template <Dtype dtype>
void run_op(Work work, Op op, std::size_t threads) {
  if (op == Op::min) return run<Combine<dtype, Op::min>>(work, threads);
  if (op == Op::max) return run<Combine<dtype, Op::max>>(work, threads);
  if (op == Op::prod) return run<Combine<dtype, Op::prod>>(work, threads);
  run<Combine<dtype, Op::sum>>(work, threads);
}

std::size_t threads_of(const PatrCudaLaunch* launch) {
  return std::size_t(launch->blocks) * threads_per_block;
}

// The default stream has nothing queued: its work is done at once.
template <typename Work>
int queue(void* stream, Work work) {
  if (!fake::exists(stream)) return launch_failure;
  if (stream == nullptr) {
    work();
  } else {
    static_cast<fake::Queue*>(stream)->add(work);
  }
  return 0;
}

}  // namespace

// Holds the stream until somebody sets `released`.
PATR_EXPORT int fake_hold(void* stream, const std::atomic<bool>* released) {
  return queue(stream, [=] {
    while (!*released) std::this_thread::sleep_for(std::chrono::milliseconds(1));
  });
}

PATR_EXPORT int fake_synchronise(void* stream);

int patr_cuda_interface() { return patr_cuda_interface_version; }
const char* patr_cuda_build() { return "this processor"; }
const char* patr_cuda_error_name(int error) {
  return error == no_kernel_image ? "cudaErrorNoKernelImageForDevice" : "cudaErrorLaunchFailure";
}
const char* patr_cuda_error_text(int) { return "fake error"; }

int patr_cuda_versions(int* driver, int* kernels) {
  *driver = *kernels = 13000;
  return 0;
}

int patr_cuda_device_count(int* count) {
  *count = 2;
  return 0;
}

// The second device is too old.
int patr_cuda_device(int device, PatrCudaDevice* facts) {
  std::strcpy(facts->name, device == 0 ? "Fake" : "Relic");
  facts->major = device == 0 ? 9 : 3;
  facts->minor = 0;
  facts->multiprocessors = 10;
  return device == 0 ? 0 : no_kernel_image;
}

int patr_cuda_combine(const PatrCudaLaunch* launch, void* out, void* also, const void* received,
                      const void* held, std::size_t count, int dtype, int op, double scale) {
  constexpr void (*functions[dtype_count])(Work, Op, std::size_t) = {
      run_op<Dtype::float32>,  run_op<Dtype::float64>, run_op<Dtype::float16>,
      run_op<Dtype::bfloat16>, run_op<Dtype::int32>,   run_op<Dtype::int64>,
      run_op<Dtype::uint8>,
  };
  const Work work{out, also, received, held, count, scale, 1};
  return queue(launch->stream, [=, threads = threads_of(launch), function = functions[dtype]] {
    function(work, Op(op), threads);
  });
}

int patr_cuda_scale_copy(const PatrCudaLaunch* launch, void* out, const void* in, std::size_t count,
                         int dtype, double scale) {
  constexpr void (*functions[])(Work, std::size_t) = {
      run<Scale<Dtype::float32>>, run<Scale<Dtype::float64>>, run<Scale<Dtype::float16>>,
      run<Scale<Dtype::bfloat16>>};
  if (scale == 1 || dtype >= int(Dtype::int32)) {
    const std::size_t bytes = count * element_bytes[dtype];
    return queue(launch->stream, [=] { std::memmove(out, in, bytes); });
  }
  const Work work{out, nullptr, nullptr, in, count, scale, 1};
  return queue(launch->stream, [=, threads = threads_of(launch), function = functions[dtype]] {
    function(work, threads);
  });
}

int patr_cuda_divide(const PatrCudaLaunch* launch, void* data, std::size_t count, int dtype,
                     std::int64_t divisor) {
  constexpr void (*functions[])(Work, std::size_t) = {
      run<Divide<Dtype::int32>>, run<Divide<Dtype::int64>>, run<Divide<Dtype::uint8>>};
  if (dtype < int(Dtype::int32)) return 0;
  const auto function = functions[dtype - int(Dtype::int32)];
  const Work work{data, nullptr, nullptr, data, count, 1, divisor};
  return queue(launch->stream, [=, threads = threads_of(launch)] { function(work, threads); });
}

int patr_cuda_stream_create(int, void** stream) {
  static std::atomic<unsigned> seed{1};
  auto* const made = new fake::Queue(seed++);
  std::lock_guard lock(fake::existing().mutex);
  fake::existing().streams.insert(made);
  *stream = made;
  return 0;
}

int patr_cuda_stream_destroy(int, void* stream) {
  {
    std::lock_guard lock(fake::existing().mutex);
    if (fake::existing().streams.erase(stream) == 0) return launch_failure;
  }
  delete static_cast<fake::Queue*>(stream);
  return 0;
}

int patr_cuda_stream_wait(int, void* stream, void* event) {
  if (!fake::exists(stream)) return launch_failure;
  std::shared_ptr<fake::Signal> signal;
  {
    auto* const recorded = static_cast<fake::Event*>(event);
    std::lock_guard lock(recorded->mutex);
    signal = recorded->last;
  }
  if (!signal) return 0;
  if (stream != nullptr) {
    static_cast<fake::Queue*>(stream)->wait(signal);
    return 0;
  }
  std::unique_lock lock(signal->mutex);
  signal->changed.wait(lock, [&] { return signal->given; });
  return 0;
}

// Captured is a stream as long as the test says so.
static std::atomic<void*> captured{nullptr};

int patr_cuda_stream_captures(int, void* stream, int* captures) {
  *captures = stream != nullptr && stream == captured;
  return fake::exists(stream) ? 0 : launch_failure;
}

int patr_cuda_event_create(int, void** event) {
  *event = new fake::Event;
  std::lock_guard lock(fake::existing().mutex);
  fake::existing().events.insert(*event);
  return 0;
}

int patr_cuda_event_destroy(int, void* event) {
  {
    std::lock_guard lock(fake::existing().mutex);
    if (fake::existing().events.erase(event) == 0) return launch_failure;
  }
  delete static_cast<fake::Event*>(event);
  return 0;
}

int patr_cuda_event_record(int, void* event, void* stream) {
  auto signal = std::make_shared<fake::Signal>();
  {
    auto* const recorded = static_cast<fake::Event*>(event);
    std::lock_guard lock(recorded->mutex);
    recorded->last = signal;
  }
  return queue(stream, [signal] { signal->give(); });
}

int patr_cuda_event_query(int, void* event, int* done) {
  auto* const recorded = static_cast<fake::Event*>(event);
  std::lock_guard lock(recorded->mutex);
  *done = !recorded->last || recorded->last->is_given();
  return 0;
}

int patr_cuda_stream_synchronise(int, void* stream) { return fake_synchronise(stream); }

int patr_cuda_copy(int, void* stream, void* to, const void* from, std::size_t bytes) {
  return queue(stream, [=] { std::memcpy(to, from, bytes); });
}

int patr_cuda_allocate(int, void** memory, std::size_t bytes) {
  *memory = std::malloc(bytes);
  std::memset(*memory, 0xff, bytes);  // a NaN, or minus one
  std::lock_guard lock(fake::existing().mutex);
  fake::existing().memory.insert(*memory);
  return 0;
}

int patr_cuda_release(int, void* memory) {
  {
    std::lock_guard lock(fake::existing().mutex);
    if (fake::existing().memory.erase(memory) == 0) return launch_failure;
  }
  std::free(memory);
  return 0;
}

int patr_cuda_allocate_pinned(int device, void** memory, std::size_t bytes) {
  return patr_cuda_allocate(device, memory, bytes);
}

int patr_cuda_release_pinned(int device, void* memory) { return patr_cuda_release(device, memory); }

int patr_cuda_set_current(int, int* before) {
  *before = 0;
  return 0;
}

// For tests, by ctypes.

PATR_EXPORT int fake_sleep(void* stream, int milliseconds) {
  return queue(stream,
               [=] { std::this_thread::sleep_for(std::chrono::milliseconds(milliseconds)); });
}

PATR_EXPORT int fake_synchronise(void* stream) {
  auto signal = std::make_shared<fake::Signal>();
  const int result = queue(stream, [signal] { signal->give(); });
  std::unique_lock lock(signal->mutex);
  if (result == 0) signal->changed.wait(lock, [&] { return signal->given; });
  return result;
}

PATR_EXPORT int fake_capture(void* stream) {
  captured = stream;
  return 0;
}

// How many streams, events and blocks of memory there are.
PATR_EXPORT int fake_count() {
  std::lock_guard lock(fake::existing().mutex);
  const auto& all = fake::existing();
  return int(all.streams.size() + all.events.size() + all.memory.size());
}
