// One collective on its way into the executor's streams.
#pragma once

#include <algorithm>
#include <cstddef>
#include <vector>

#include "streams/executor.h"

namespace patallreduce {

class StreamExecutor::Queueing {
 public:
  Queueing(StreamExecutor& executor, StreamTicket& ticket);
  void run();

 private:
  static constexpr std::size_t alignment = 256;  // of what lands in scratch: whole vectors

  std::size_t bytes(std::int32_t first, std::int32_t last) const {
    return offsets_[last] - offsets_[first];
  }
  std::byte* address(Memory memory, std::int32_t first) const;
  // Where the stage's receives land in its region; the last entry is how much they need together.
  std::vector<std::size_t> landings(const Stage& stage) const;
  std::byte* landing(const Stage& stage, std::int32_t receive) const;
  void* record(void* stream);
  void group(std::int32_t s);
  void sum(std::int32_t s);
  void apply(const Stage& stage, const Apply& apply);
  void finish(void* passed);

  StreamExecutor& executor_;
  const StreamDevice& device_;
  StreamTicket& ticket_;
  const StreamProgram& program_;
  const StreamCall& call_;
  const double scale_;
  std::vector<std::size_t> offsets_;
  std::size_t region_bytes_ = 0;
  std::vector<std::size_t> landings_;  // of the stage at hand
  std::vector<void*> summed_;          // [stage]: the event behind its sums, if awaited
  std::int32_t waited_for_ = -1;       // stage whose sums the messages have waited for
  bool has_messages_ = false;
};

}  // namespace patallreduce
