#include "gpu/device/device.h"

#include "errors.h"

namespace patallreduce::gpu {

Device::Device(const CudaLibrary& library, int device)
    : library_(library), reduction_(library, device) {}

void Device::check(int error, const char* doing) const {
  if (error != 0) library_.fail(error, number(), doing);
}

void* Device::create_stream() const {
  void* stream = nullptr;
  check(library_.patr_cuda_stream_create(number(), &stream), "creation of a stream");
  return stream;
}

void Device::destroy_stream(void* stream) const noexcept {
  library_.patr_cuda_stream_destroy(number(), stream);
}

bool Device::captures(void* stream) const {
  int captures = 0;
  check(library_.patr_cuda_stream_captures(number(), stream, &captures), "look at a stream");
  return captures != 0;
}

void Device::refuse_capture(void* stream, int rank) const {
  PATR_CHECK(!captures(stream), std::invalid_argument, "rank ", rank,
             ": a CUDA graph is being made of the stream: collectives are not part of graphs, "
             "because a graph would be run again without the other ranks' agreement");
}

void Device::synchronise(void* stream) const {
  check(library_.patr_cuda_stream_synchronise(number(), stream), "wait for a stream");
}

void Device::copy(void* to, const void* from, std::size_t bytes, void* stream) const {
  const int error = library_.patr_cuda_copy(number(), stream, to, from, bytes);
  if (error != 0) library_.fail(error, number(), concat("copy of ", bytes, " bytes"));
}

void* Device::create_event() const {
  void* event = nullptr;
  check(library_.patr_cuda_event_create(number(), &event), "creation of an event");
  return event;
}

void Device::destroy_event(void* event) const noexcept {
  library_.patr_cuda_event_destroy(number(), event);
}

void Device::record(void* event, void* stream) const {
  check(library_.patr_cuda_event_record(number(), event, stream), "record of an event");
}

void Device::wait(void* stream, void* event) const {
  check(library_.patr_cuda_stream_wait(number(), stream, event), "wait for an event");
}

bool Device::done(void* event) const {
  int done = 0;
  check(library_.patr_cuda_event_query(number(), event, &done), "look at an event");
  return done != 0;
}

void* Device::allocate(std::size_t bytes) const {
  void* memory = nullptr;
  const int error = library_.patr_cuda_allocate(number(), &memory, bytes);
  if (error != 0) library_.fail(error, number(), concat("allocation of ", bytes, " bytes"));
  return memory;
}

void Device::release(void* memory) const noexcept { library_.patr_cuda_release(number(), memory); }

void* Device::allocate_pinned(std::size_t bytes) const {
  void* memory = nullptr;
  const int error = library_.patr_cuda_allocate_pinned(number(), &memory, bytes);
  if (error != 0)
    library_.fail(error, number(), concat("allocation of ", bytes, " pinned bytes of the host"));
  return memory;
}

void Device::release_pinned(void* memory) const noexcept {
  library_.patr_cuda_release_pinned(number(), memory);
}

int Device::make_current() const {
  int before = 0;
  check(library_.patr_cuda_set_current(number(), &before), "choice as the current device");
  return before;
}

void Device::restore_current(int before) const noexcept {
  int ignored = 0;
  library_.patr_cuda_set_current(before, &ignored);
}

Device::Current::Current(const Device& device) : device_(device), before_(device.make_current()) {}

Device::Current::~Current() { device_.restore_current(before_); }

}  // namespace patallreduce::gpu
