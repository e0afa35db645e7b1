#include "gpu/device/device.h"

#include "errors.h"

namespace patallreduce::gpu {

using reduction::CudaLibrary;

StreamDevice::StreamDevice(const CudaLibrary& library, int device)
    : library_(library), reduction_(library, device) {}

void StreamDevice::check(int error, const char* doing) const {
  if (error != 0) library_.fail(error, number(), doing);
}

void* StreamDevice::create_stream() const {
  void* stream = nullptr;
  check(library_.patr_cuda_stream_create(number(), &stream), "creation of a stream");
  return stream;
}

void StreamDevice::destroy_stream(void* stream) const noexcept {
  library_.patr_cuda_stream_destroy(number(), stream);
}

bool StreamDevice::captures(void* stream) const {
  int captures = 0;
  check(library_.patr_cuda_stream_captures(number(), stream, &captures), "look at a stream");
  return captures != 0;
}

void StreamDevice::refuse_capture(void* stream, int rank) const {
  PATR_CHECK(!captures(stream), std::invalid_argument, "rank ", rank,
             ": a CUDA graph is being made of the stream: collectives are not part of graphs, "
             "because a graph would be run again without the other ranks' agreement");
}

void StreamDevice::synchronise(void* stream) const {
  check(library_.patr_cuda_stream_synchronise(number(), stream), "wait for a stream");
}

void StreamDevice::copy(void* to, const void* from, std::size_t bytes, void* stream) const {
  const int error = library_.patr_cuda_copy(number(), stream, to, from, bytes);
  if (error != 0) library_.fail(error, number(), concat("copy of ", bytes, " bytes"));
}

void* StreamDevice::create_event() const {
  void* event = nullptr;
  check(library_.patr_cuda_event_create(number(), &event), "creation of an event");
  return event;
}

void StreamDevice::destroy_event(void* event) const noexcept {
  library_.patr_cuda_event_destroy(number(), event);
}

void StreamDevice::record(void* event, void* stream) const {
  check(library_.patr_cuda_event_record(number(), event, stream), "record of an event");
}

void StreamDevice::wait(void* stream, void* event) const {
  check(library_.patr_cuda_stream_wait(number(), stream, event), "wait for an event");
}

bool StreamDevice::done(void* event) const {
  int done = 0;
  check(library_.patr_cuda_event_query(number(), event, &done), "look at an event");
  return done != 0;
}

void* StreamDevice::allocate(std::size_t bytes) const {
  void* memory = nullptr;
  const int error = library_.patr_cuda_allocate(number(), &memory, bytes);
  if (error != 0) library_.fail(error, number(), concat("allocation of ", bytes, " bytes"));
  return memory;
}

void StreamDevice::release(void* memory) const noexcept {
  library_.patr_cuda_release(number(), memory);
}

void* StreamDevice::allocate_pinned(std::size_t bytes) const {
  void* memory = nullptr;
  const int error = library_.patr_cuda_allocate_pinned(number(), &memory, bytes);
  if (error != 0)
    library_.fail(error, number(), concat("allocation of ", bytes, " pinned bytes of the host"));
  return memory;
}

void StreamDevice::release_pinned(void* memory) const noexcept {
  library_.patr_cuda_release_pinned(number(), memory);
}

int StreamDevice::make_current() const {
  int before = 0;
  check(library_.patr_cuda_set_current(number(), &before), "choice as the current device");
  return before;
}

void StreamDevice::restore_current(int before) const noexcept {
  int ignored = 0;
  library_.patr_cuda_set_current(before, &ignored);
}

StreamDevice::Current::Current(const StreamDevice& device)
    : device_(device), before_(device.make_current()) {}

StreamDevice::Current::~Current() { device_.restore_current(before_); }

}  // namespace patallreduce::gpu
