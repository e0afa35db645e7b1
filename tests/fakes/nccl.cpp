// A fake of NCCL among threads of one process in host memory, on fake streams.
//
// As NCCL's: a group is one piece of a stream's work, which is over when all its messages are; the
// k-th send to a peer goes into its k-th receive from here, whatever else is waiting; nothing is
// buffered, so a group waits for its peers; making a communicator waits for all ranks, which the
// caller sees as "in progress"; giving one up waits for its groups, also for those that an event
// still keeps in their stream. Data is read and written at any moment while both groups last.
#include <atomic>
#include <chrono>
#include <cstring>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "cuda_streams.h"
#include "gpu/nccl/library.h"

using namespace patallreduce::gpu;

#define EXPORT extern "C" __attribute__((visibility("default")))

namespace {

constexpr int success = 0, remote_error = 6, invalid_argument = 4, invalid_usage = 5;

struct Message {
  char* memory;
  std::size_t bytes;
  bool over = false;
  bool wrong = false;  // the other end has another size
};
using Messages = std::vector<std::shared_ptr<Message>>;

struct Hub {
  std::mutex mutex;
  std::condition_variable changed;
  int joined = 0;
  std::map<int, int> received;  // rank -> messages received
  std::map<std::pair<int, int>, std::deque<std::shared_ptr<Message>>> sends, receives;
};

struct Comm {
  std::shared_ptr<Hub> hub;
  int rank, ranks;
  std::atomic<int> error{success};
  std::atomic<bool> aborted{false};
  int queued = 0;  // groups that are not over; guarded by the hub
};

struct Existing {
  std::mutex mutex;
  std::map<std::string, std::shared_ptr<Hub>> hubs;
  std::map<std::pair<std::string, int>, Comm*> comms;
};

Existing& existing() {
  static Existing* const all = new Existing;  // threads may outlive static objects
  return *all;
}

struct Posted {
  Comm* comm;
  bool sends;
  int peer;
  std::shared_ptr<Message> message;
};
thread_local std::vector<Posted> group;
thread_local fake::Stream* group_stream = nullptr;
thread_local bool grouped = false;

Comm* comm_of(PatrNcclComm* comm) { return reinterpret_cast<Comm*>(comm); }

void match(Hub& hub, std::pair<int, int> pair) {
  auto& sends = hub.sends[pair];
  auto& receives = hub.receives[pair];
  while (!sends.empty() && !receives.empty()) {
    Message &from = *sends.front(), &to = *receives.front();
    if (from.bytes == to.bytes) {
      std::memcpy(to.memory, from.memory, from.bytes);
      ++hub.received[pair.second];
    } else {
      from.wrong = to.wrong = true;
    }
    from.over = to.over = true;
    sends.pop_front();
    receives.pop_front();
  }
}

void run(const std::vector<Posted>& posted) {
  Comm& comm = *posted[0].comm;
  Hub& hub = *comm.hub;
  std::unique_lock lock(hub.mutex);
  if (comm.aborted) {  // or it would be taken for the group that was given up
    --comm.queued;
    hub.changed.notify_all();
    return;
  }
  for (const Posted& one : posted) {
    const auto pair = one.sends ? std::pair(comm.rank, one.peer) : std::pair(one.peer, comm.rank);
    (one.sends ? hub.sends : hub.receives)[pair].push_back(one.message);
    match(hub, pair);
  }
  hub.changed.notify_all();
  const auto all_over = [&] {
    for (const Posted& one : posted) {
      if (one.message->wrong) comm.error = invalid_usage;
      if (!one.message->over || one.message->wrong) return false;
    }
    return true;
  };
  while (!all_over() && !comm.aborted) {
    hub.changed.wait_for(lock, std::chrono::milliseconds(5));
  }
  --comm.queued;
  hub.changed.notify_all();
  // Of an aborted group nobody may touch the memory any more.
  for (auto* waiting : {&hub.sends, &hub.receives}) {
    for (auto& [pair, messages] : *waiting) {
      for (const Posted& one : posted) {
        for (auto at = messages.begin(); at != messages.end();) {
          at = *at == one.message ? messages.erase(at) : at + 1;
        }
      }
    }
  }
}

int post(bool sends, char* memory, std::size_t bytes, int type, int peer, PatrNcclComm* comm,
         void* stream) {
  Comm* const mine = comm_of(comm);
  const bool valid = grouped && type == nccl_bytes && peer >= 0 && peer < mine->ranks &&
                     stream != nullptr && bytes > 0 && memory != nullptr;
  if (!valid) return invalid_argument;
  auto* const here = static_cast<fake::Stream*>(stream);
  if (group_stream != nullptr && group_stream != here) return invalid_usage;
  group_stream = here;
  auto message = std::make_shared<Message>();
  message->memory = memory;
  message->bytes = bytes;
  group.push_back({mine, sends, peer, message});
  return success;
}

}  // namespace

EXPORT int ncclGetVersion(int* version) {
  *version = 22703;
  return success;
}
EXPORT const char* ncclGetErrorString(int result) {
  return result == remote_error ? "remote process exited" : "fake error";
}
EXPORT const char* ncclGetLastError(PatrNcclComm*) { return "fake"; }

EXPORT int ncclGetUniqueId(PatrNcclUniqueId* id) {
  static std::atomic<int> next{0};
  std::memset(id->internal, 0, sizeof id->internal);
  const std::string text = "fake " + std::to_string(next++);
  text.copy(id->internal, text.size());
  return success;
}

EXPORT int ncclCommInitRankConfig(PatrNcclComm** comm, int ranks, PatrNcclUniqueId id, int rank,
                                  PatrNcclConfig* config) {
  if (config->magic != 0xcafebeef || config->size != 24 || config->blocking != 0) {
    return invalid_argument;
  }
  std::lock_guard lock(existing().mutex);
  auto& hub = existing().hubs[id.internal];
  if (!hub) hub = std::make_shared<Hub>();
  auto* const made = new Comm{hub, rank, ranks};
  existing().comms[{id.internal, rank}] = made;
  *comm = reinterpret_cast<PatrNcclComm*>(made);
  std::lock_guard hub_lock(hub->mutex);
  ++hub->joined;
  return nccl_in_progress;
}

EXPORT int ncclCommGetAsyncError(PatrNcclComm* comm, int* error) {
  Comm& mine = *comm_of(comm);
  std::lock_guard lock(mine.hub->mutex);
  *error = mine.error;
  if (*error == success && mine.hub->joined < mine.ranks) *error = nccl_in_progress;
  return success;
}

EXPORT int ncclCommFinalize(PatrNcclComm*) { return success; }
EXPORT int ncclCommDestroy(PatrNcclComm*) { return success; }  // its queued groups may go on

EXPORT int ncclCommAbort(PatrNcclComm* comm) {
  Comm& mine = *comm_of(comm);
  mine.aborted = true;
  std::unique_lock lock(mine.hub->mutex);
  mine.hub->changed.wait(lock, [&] { return mine.queued == 0; });
  return success;
}

EXPORT int ncclGroupStart() {
  grouped = true;
  return success;
}

EXPORT int ncclGroupEnd() {
  grouped = false;
  std::vector<Posted> posted = std::move(group);
  group.clear();
  fake::Stream* const stream = group_stream;
  group_stream = nullptr;
  if (posted.empty()) return success;
  {
    std::lock_guard lock(posted[0].comm->hub->mutex);
    ++posted[0].comm->queued;
  }
  stream->add([posted] { run(posted); });
  return success;
}

EXPORT int ncclSend(const void* memory, std::size_t count, int type, int peer, PatrNcclComm* comm,
                    void* stream) {
  return post(true, static_cast<char*>(const_cast<void*>(memory)), count, type, peer, comm, stream);
}
EXPORT int ncclRecv(void* memory, std::size_t count, int type, int peer, PatrNcclComm* comm,
                    void* stream) {
  return post(false, static_cast<char*>(memory), count, type, peer, comm, stream);
}

// For tests: NCCL finds that a rank's peer is gone.
EXPORT int fake_break(const char* id, int rank) {
  std::lock_guard lock(existing().mutex);
  const auto found = existing().comms.find({id, rank});
  if (found == existing().comms.end()) return invalid_argument;
  found->second->error = remote_error;
  return success;
}

// For tests: whether a rank has given the communicator up.
EXPORT int fake_aborted(const char* id, int rank) {
  std::lock_guard lock(existing().mutex);
  const auto found = existing().comms.find({id, rank});
  return found == existing().comms.end() ? -1 : int(found->second->aborted);
}

// For tests: how many messages a rank has been given so far.
EXPORT int fake_received(const char* id, int rank) {
  std::lock_guard lock(existing().mutex);
  const auto found = existing().hubs.find(id);
  if (found == existing().hubs.end()) return -1;
  std::lock_guard hub_lock(found->second->mutex);
  return found->second->received[rank];
}
