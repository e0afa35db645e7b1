#include "transport/loopback.h"

#include <sys/eventfd.h>
#include <unistd.h>

#include <cstring>

#include "errors.h"

namespace patallreduce::transport {

namespace {

constexpr std::size_t buffered_bytes = 8 * 1024;  // UCX's eager messages are about this size

std::string wrong_size(std::size_t expected, std::size_t got) {
  return concat("sent a message of ", got, " bytes where ", expected, " were expected");
}

}  // namespace

LoopbackHub::LoopbackHub(int ranks) {
  PATR_CHECK(ranks >= 1, TransportError, "loopback: expected ranks >= 1, got ", ranks);
  for (int rank = 0; rank < ranks; ++rank) {
    boxes_.push_back(std::make_unique<Box>());
    boxes_.back()->fd = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
    PATR_CHECK(boxes_.back()->fd >= 0, TransportError,
               "loopback: no file descriptor left for rank ", rank, " of ", ranks);
  }
}

LoopbackHub::Box::~Box() {
  if (fd >= 0) ::close(fd);
}

// The caller holds box.mutex.
void LoopbackHub::signal(Box& box) {
  if (box.signalled) return;
  box.signalled = true;
  eventfd_write(box.fd, 1);
}

void LoopbackHub::finish(int rank, Token token) {
  Box& box = *boxes_[rank];
  std::lock_guard lock(box.mutex);
  box.events.finished.push_back(token);
  signal(box);
}

void LoopbackHub::lose(int at, int rank, const std::string& reason) {
  Box& box = *boxes_[at];
  std::lock_guard lock(box.mutex);
  box.events.lost.push_back({rank, reason});
  signal(box);
}

void LoopbackHub::lose(int rank) {
  for (int at = 0; at < ranks(); ++at)
    if (at != rank) lose(at, rank, "lost by the test");
}

Loopback::Loopback(std::shared_ptr<LoopbackHub> hub, int rank) : hub_(std::move(hub)), rank_(rank) {
  PATR_CHECK(rank >= 0 && rank < hub_->ranks(), TransportError, "loopback: expected a rank in 0..",
             hub_->ranks() - 1, ", got ", rank);
}

Loopback::~Loopback() { abandon(); }

void Loopback::send(int to, std::uint64_t tag, const void* data, std::size_t bytes, Token token) {
  LoopbackHub::Box& target = *hub_->boxes_[to];
  {
    std::unique_lock lock(target.mutex);
    const auto posted = target.posted.find({rank_, tag});
    if (posted == target.posted.end()) {
      LoopbackHub::Waiting waiting{data, bytes, token, {}, bytes <= buffered_bytes};
      if (waiting.buffered) waiting.copy.assign(static_cast<const char*>(data), bytes);
      const bool buffered = waiting.buffered;
      target.waiting.insert_or_assign({rank_, tag}, std::move(waiting));
      if (!buffered) return;
    } else {
      const LoopbackHub::Posted recv = posted->second;
      target.posted.erase(posted);
      if (recv.bytes == bytes) {
        std::memcpy(recv.data, data, bytes);
        target.events.finished.push_back(recv.token);
      } else {
        target.events.lost.push_back({rank_, wrong_size(recv.bytes, bytes)});
      }
      LoopbackHub::signal(target);
    }
  }
  hub_->finish(rank_, token);
}

void Loopback::recv(int from, std::uint64_t tag, void* data, std::size_t bytes, Token token) {
  LoopbackHub::Box& own = box();
  Token sender_token;
  {
    std::lock_guard lock(own.mutex);
    const auto found = own.waiting.find({from, tag});
    if (found == own.waiting.end()) {
      own.posted[{from, tag}] = {data, bytes, token};
      return;
    }
    const LoopbackHub::Waiting& message = found->second;
    if (message.bytes == bytes) {
      std::memcpy(data, message.buffered ? message.copy.data() : message.data, bytes);
      own.events.finished.push_back(token);
    } else {
      own.events.lost.push_back({from, wrong_size(bytes, message.bytes)});
    }
    LoopbackHub::signal(own);
    sender_token = message.token;
    const bool buffered = message.buffered;
    own.waiting.erase(found);
    if (buffered) return;  // its sender has long been told
  }
  hub_->finish(from, sender_token);
}

void Loopback::control(int to, const std::string& bytes) {
  LoopbackHub::Box& target = *hub_->boxes_[to];
  std::lock_guard lock(target.mutex);
  target.events.control.push_back({rank_, bytes});
  LoopbackHub::signal(target);
}

void Loopback::progress(Events& events) {
  LoopbackHub::Box& own = box();
  std::lock_guard lock(own.mutex);
  if (!own.events.empty()) events.take(own.events);
}

bool Loopback::arm() {
  LoopbackHub::Box& own = box();
  std::lock_guard lock(own.mutex);
  if (!own.events.empty()) return false;
  if (own.signalled) {
    eventfd_t count;
    eventfd_read(own.fd, &count);
    own.signalled = false;
  }
  return true;
}

void Loopback::abandon() {
  for (int at = 0; at < ranks(); ++at) {
    LoopbackHub::Box& other = *hub_->boxes_[at];
    std::lock_guard lock(other.mutex);
    for (auto message = other.waiting.begin(); message != other.waiting.end();) {
      const bool mine = message->first.first == rank_ && !message->second.buffered;
      message = mine ? other.waiting.erase(message) : std::next(message);
    }
    if (at == rank_) {
      other.posted.clear();
      other.events.clear();
    }
  }
}

void Loopback::close(double) { abandon(); }

}  // namespace patallreduce::transport
