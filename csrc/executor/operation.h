// One collective in flight on one rank: runs a program's steps as data, peers and the caller
// arrive.
//
// Early in: receives are posted into private pieces of scratch before this rank has arrived.
// Early out: what is sent after a segment got its result is sent from a private piece, never from
// the caller's memory, so the caller may go on while sends drain.
// Where every peer copies straight from this rank's memory and nobody is expected to be late, early
// out would only cost a second copy of the result: then sends leave from the caller's memory, and
// the result is there when they are done.
// Of a reduce the ranks that are not its root have no result: all their sums stay in scratch, and
// the caller gets its memory back once nothing reads it any more. Every segment has one value: the
// caller's memory at first, then the piece it was summed into. With a result that comes while the
// sum is still being sent, a segment has at most two pieces: the scratch of an operation is bounded
// by twice its message, and by its message before arrival.
#pragma once

#include <cstdint>
#include <deque>
#include <memory>
#include <vector>

#include "executor/arithmetic.h"
#include "executor/call.h"
#include "executor/places.h"
#include "executor/program.h"
#include "executor/scratch.h"
#include "executor/values.h"
#include "transport/transport.h"

namespace patallreduce::executor {

using schedule::Step;
using transport::Token;
using transport::Transport;

class Operation {
 public:
  // `scratch` is of the kind of memory that the call is about, and brings its arithmetic.
  // `place`: which place's program this is, its peers being places, see bind_place(); -1: not
  // dynamic.
  Operation(std::uint64_t seq, Call call, std::shared_ptr<const Program> program, int place,
            Transport& transport, Scratch& scratch);
  // Before it is destroyed the transport no longer uses its memory: drained, or abandoned.
  Operation(const Operation&) = delete;

  const Call& call() const { return call_; }
  std::size_t most_scratch_bytes() const { return 2 * call_.bytes(); }
  const Program& program() const { return *program_; }
  int place() const { return place_; }
  bool arrived() const { return arrived_; }
  bool has_result() const { return arrived() && (early_out_ ? needed_left_ == 0 : drained()); }
  bool drained() const { return arrived() && steps_left_ == 0; }

  // Tells who is at a place. What goes there or comes from there waits for this.
  void bind_place(const Place& place);
  // Lets it receive. Before this it holds no memory.
  void admit();
  // This rank's contribution, and where the result goes; valid until has_result().
  void arrive(void* data);
  // A send or recv it posted is finished.
  void finished(std::int32_t step);
  // Posts further receives: while `all` is false only as many as keep the pieces in the cache.
  void post_receives(bool all);

  // A rank this one still waits for, or -1: none, or not known yet who it will be.
  int waiting_for() const;
  // The first receive that it waits for, and from whom; -1, -1: none. Before it is posted, and what
  // has come is taken, from -1.
  struct Receive {
    std::int32_t step;
    int from;
  };
  Receive receiving() const;
  // A rank that has not taken what this one sends, or -1: none.
  int sending_to() const;

 private:
  enum class State : std::uint8_t { waiting, posted, landed, done };

  std::size_t begin(int segment) const { return offsets_[segment]; }
  std::size_t bytes_of(std::int32_t step) const;

  void run();                        // works off ready_
  bool try_step(std::int32_t step);  // false: waits for arrival or data
  bool start_send(std::int32_t step);
  void start_direct_recv(std::int32_t step);
  void apply_recv_reduce(std::int32_t step);
  void apply_recv(std::int32_t step);
  void divide_received(const Step& step);
  void complete(std::int32_t step);
  bool is_skipped(std::int32_t step) const;
  bool lands_directly(std::int32_t step) const;
  int peer(std::int32_t step) const;  // -1: not known yet
  Token token(std::int32_t step) const;
  std::uint64_t tag(std::int32_t step) const;

  std::uint64_t seq_;
  Call call_;
  std::shared_ptr<const Program> program_;
  Transport& transport_;
  Arithmetic& arithmetic_;
  std::uint64_t signature_;
  int place_;
  std::vector<std::int32_t> places_;  // the rank at each place, -1: unknown; empty: not dynamic
  bool early_out_;
  double scale_;          // of the caller's values: 1/ranks for avg of floats
  std::int64_t divisor_;  // of the result: ranks for avg of integers
  Values values_;         // per segment

  std::byte* data_ = nullptr;
  bool arrived_ = false;
  bool admitted_ = false;
  std::vector<std::size_t> offsets_;  // bytes where each segment begins; one more for the end
  std::vector<std::int32_t> touches_left_;
  std::vector<State> state_;  // per step
  std::vector<std::int32_t> waits_;
  std::vector<std::int32_t> piece_of_;  // per step: the piece it fills or reads, or -1
  std::deque<std::int32_t> ready_;
  std::vector<std::int32_t> before_arrival_;  // ready, but for this rank's arrival
  std::vector<std::int32_t> before_peer_;     // ready, but for knowing its peer
  std::size_t next_recv_ = 0;                 // in program_->recvs
  std::size_t receiving_bytes_ = 0;
  std::int32_t needed_left_;
  std::size_t steps_left_;
};

// Which operation and step a token belongs to.
inline std::uint32_t seq_of(Token token) { return static_cast<std::uint32_t>(token >> 32); }
inline std::int32_t step_of(Token token) { return static_cast<std::int32_t>(token); }

}  // namespace patallreduce::executor
