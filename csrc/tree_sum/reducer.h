// One number, or a small vector, of N elements spread over ranks in any way: the same bits on every
// number of ranks.
//
// A round is one all-reduce of the root table. Values can only be in it where all counts were known
// beforehand, so the first call takes two rounds: headers, then values. Afterwards a rank whose
// count has not changed writes its values at once, and one round is enough if that holds for all.
// All ranks see the same headers, so all agree on whether the values counted, on a second round,
// and on an error: a rank that was called with something unusable takes part and says so.
//
//   cost     the local elements read once; one all-reduce (recursive doubling: log2 P messages) of
//            P * 32 bytes and of at most 2 log2 n values per rank
//   source   Stelz (2022). Its exchange sends every rank's roots to the holders of their parents
//            (messages.h), as deep as the tree; here all ranks get all roots at once
#pragma once

#include <memory>

#include "executor/engine.h"
#include "tree_sum/root_table.h"

namespace patallreduce::tree_sum {

using executor::Engine;
using executor::Ticket;

struct TreeRequest {
  const void* data = nullptr;  // valid until the call has ended; rows one after the other
  std::int64_t count = 0;
  std::int64_t columns = -1;  // -1: plain numbers
  Dtype dtype = Dtype::float64;
  Op op = Op::sum;
  std::vector<std::int64_t>
      distribution;  // what the caller believes all counts are; empty: nothing
  int refusal = 0;   // 1 ...: an index into tree_refusals; no values then
  double timeout_s = 0;
};

// Why a rank gives no values, as the other ranks say it.
extern const std::vector<const char*> tree_refusals;

class TreeReducer {
 public:
  explicit TreeReducer(std::shared_ptr<Engine> engine);

  // Starts a round; null if there is nobody to wait for.
  std::shared_ptr<Ticket> begin(const TreeRequest& request);
  // After a round, on all ranks alike: whether `out` has the result; else another round is due.
  // Throws MismatchError if ranks were called differently and std::invalid_argument if one gave no
  // values or the distribution is not theirs. The communicator stays usable.
  bool finish(const TreeRequest& request, void* out);

  const std::shared_ptr<Engine>& engine() const { return engine_; }
  // Rounds so far.
  std::uint64_t rounds() const { return rounds_; }

 private:
  void agree(const TreeRequest& request) const;
  bool knows(const TreeRequest& request) const;

  std::shared_ptr<Engine> engine_;
  RootTable table_;  // its counts are the last call's: the same on all ranks
  std::uint64_t rounds_ = 0;
};

}  // namespace patallreduce::tree_sum
